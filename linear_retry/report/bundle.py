"""What draws the charts, without a network?"""

from __future__ import annotations

from functools import cache

import altair as alt
import vl_convert


@cache
def bundle() -> str:
    """Vega, Vega-Lite and vega-embed as one script, which defines `vegaEmbed`.

    It takes seconds, once for a process. Free of what would end a <script>.
    """
    version = alt.SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", version)
    # Also inside a string of JavaScript this would end the element.
    return script.replace("</script", "<\\/script").replace("\r\n", "\n")
