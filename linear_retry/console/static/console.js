"use strict";

// Parts of a page that the server renders again: <div data-stream="/now/stream" id="…">. An event's
// name is the id of the element that its data replaces the inside of. A browser opens six
// connections to a server, so a page that nobody sees has none.
(() => {
  const streams = new Map();

  function connect(element) {
    const source = new EventSource(element.dataset.stream);
    const lost = document.querySelector("#lost");
    source.onopen = () => { clearTimeout(source.late); lost.hidden = true; };
    source.onerror = () => {
      // The server ends a stream now and then; that is no news.
      clearTimeout(source.late);
      source.late = setTimeout(() => { lost.hidden = streams.get(element)?.readyState === 1; }, 4000);
      // A refusal (after a restart nobody is signed in) closes it for good.
      if (source.readyState === EventSource.CLOSED) retry(element);
    };
    source.addEventListener("part", (event) => {
      const [id, html] = JSON.parse(event.data);
      const target = document.getElementById(id);
      // Only what differs is touched: what is focused or selected elsewhere stays so.
      if (target) Idiomorph.morph(target, html, { morphStyle: "innerHTML" });
      tick();
    });
    // The work behind the page has ended: the page that comes has the rest.
    source.addEventListener("end", () => { source.close(); window.location.reload(); });
    streams.set(element, source);
  }

  function retry(element) {
    streams.delete(element);
    setTimeout(look, 2000);
    // Asked as by htmx, a page that needs a login names it.
    const asking = { "HX-Request": "true", "HX-Current-URL": window.location.href };
    fetch(window.location.href, { headers: asking }).then((answer) => {
      const login = answer.headers.get("HX-Redirect");
      if (login) window.location.assign(login);
    }, () => {});  // nobody answers: it is tried again
  }

  function look() {
    for (const [element, source] of streams) {
      if (document.hidden || !element.isConnected) {
        source.close();
        streams.delete(element);
      }
    }
    if (document.hidden) return;
    for (const element of document.querySelectorAll("[data-stream]")) {
      if (!streams.has(element)) connect(element);
    }
  }

  // The time left until <time data-due-ms="…">, and that gone by since <time data-since-ms="…">. The
  // server's clock counts: <body data-now-ms> is what it was when the page was sent.
  const sent = performance.getEntriesByType("navigation")[0].responseStart + performance.timeOrigin;
  const ahead = Number(document.body.dataset.nowMs) - sent;
  const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

  function span(seconds) {
    const first = UNITS.findIndex(([, length]) => seconds >= length);
    if (first < 0) return "0s";
    const [unit, length] = UNITS[first];
    const [next, shorter] = UNITS[first + 1] || [];
    const rest = next ? Math.floor((seconds % length) / shorter) : 0;
    return `${Math.floor(seconds / length)}${unit}${rest ? `${rest}${next}` : ""}`;
  }

  function tick() {
    const now = Date.now() + ahead;
    for (const time of document.querySelectorAll("time[data-due-ms]")) {
      const left = Math.ceil((Number(time.dataset.dueMs) - now) / 1000);
      const text = left > 0 ? `in ${span(left)}` : time.dataset.past || "now";
      if (time.textContent !== text) time.textContent = text;
    }
    for (const time of document.querySelectorAll("time[data-since-ms]")) {
      const text = span(Math.max(0, Math.floor((now - Number(time.dataset.sinceMs)) / 1000)));
      if (time.textContent !== text) time.textContent = text;
    }
  }

  // A form that was sent says so, and is not sent twice.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const button = form.querySelector("button");
    if (form.method !== "post" || !button) return;
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "true";
    const note = document.createElement("p");
    note.className = "dim";
    note.setAttribute("role", "status");
    note.textContent = form.dataset.busy || "Sent; waiting for the answer…";
    form.append(note);
    // After the form's fields are taken.
    setTimeout(() => { button.disabled = true; });
  });

  // A part that asks again and again says when nobody answers, and takes back what is mended.
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    document.querySelector("#lost").hidden = detail.xhr.status !== 0;
    if (detail.successful) document.querySelector("#problem").replaceChildren();
  });

  document.addEventListener("visibilitychange", look);
  document.addEventListener("htmx:afterSettle", () => { look(); tick(); });
  look();
  tick();
  setInterval(tick, 1000);
})();
