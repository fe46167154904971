"use strict";
// Each chart's data stand in an element of their own, as JSON: text, which nothing runs.
Promise.all(Array.from(document.querySelectorAll(".chart"), (place) => {
  const spec = JSON.parse(place.nextElementSibling.textContent);
  spec.config.axis.labelLimit = Math.max(90, place.clientWidth * 0.34);
  // `ast`: Vega interprets its expressions and compiles none, which the page's policy forbids.
  return vegaEmbed(place, spec, { actions: false, renderer: "svg", ast: true }).catch((error) => {
    place.textContent = `This chart cannot be drawn: ${error.message}`;
    throw error;
  });
})).then(() => { document.documentElement.dataset.charts = "drawn"; });
