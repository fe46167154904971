"""What moves on a page by itself, as Chromium sees it.

A number that gets longer, to its left or to its right, has moved nothing yet.
"""

from playwright.sync_api import Page

_WATCH = """() => {
  window.shifts = [];
  const note = (list) => {
    for (const each of list) {
      for (const { node, previousRect, currentRect } of each.sources) {
        const keeps = (edge) => previousRect[edge] === currentRect[edge];
        if (keeps("top") && (keeps("left") || keeps("right"))) continue;
        const what = (node?.outerHTML || node?.textContent || "gone").slice(0, 120);
        window.shifts.push(
          `${what}: ${JSON.stringify(previousRect)} -> ${JSON.stringify(currentRect)}`);
      }
    }
  };
  const observer = new PerformanceObserver((list) => note(list.getEntries()));
  observer.observe({ type: "layout-shift" });
  window.lookAgain = () => note(observer.takeRecords());
}"""
# Two frames: what has changed is laid out in the first one, and reported after it.
_SHIFTS = """async () => {
  for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
  window.lookAgain();
  return window.shifts;
}"""


def watch(page: Page) -> None:
    """From now on, notes what moves."""
    page.evaluate(_WATCH)


def shifts(page: Page) -> list[str]:
    """Returns what has moved since then, and from where to where."""
    found: list[str] = page.evaluate(_SHIFTS)
    return found
