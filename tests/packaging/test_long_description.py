"""PyPI shows the README, and each of its links and pictures leads somewhere."""

from html.parser import HTMLParser

import pytest

from tests.docs.markdown import ROOT, anchors, links, page
from tests.packaging.conftest import Built
from tests.packaging.distributions import PROJECT, rendered

_REPOSITORY = PROJECT["project"]["urls"]["Repository"]
_VERSION = PROJECT["project"]["version"]
_PAGES = f"{_REPOSITORY}/blob/v{_VERSION}/"
# An address below /blob/ is a page around the picture, which PyPI cannot show.
_PICTURES = f"{_REPOSITORY.replace('//github.com', '//raw.githubusercontent.com')}/v{_VERSION}/"


class _References(HTMLParser):
    """The links, pictures and anchors of a page of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.pictures: list[str] = []
        self.anchors: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "img":
            self.pictures.append(found["src"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if "id" in found:
            self.anchors.add(found["id"])


@pytest.fixture(scope="module")
def shown(built: Built) -> _References:
    assert "text/markdown" == built.metadata["Description-Content-Type"]
    return _References(rendered(built.description))


def test_it_is_the_readme(built: Built) -> None:
    """With another way to install it: from PyPI, where its reader is."""
    description = built.description
    assert "pip install linear-retry\n" in description
    assert "PyPI" not in description
    headings = [line for line in page("README.md").splitlines() if line.startswith("#")]
    assert [line for line in description.splitlines() if line.startswith("#")] == headings


def test_no_link_is_relative(shown: _References) -> None:
    """A relative link would lead to a page of PyPI that does not exist."""
    on_page = {link for link in shown.links if link.startswith("#")}
    assert on_page <= {f"#{anchor}" for anchor in shown.anchors}
    assert [] == [link for link in set(shown.links) - on_page if not link.startswith("https://")]


def test_links_lead_to_pages_of_the_release(shown: _References) -> None:
    """Each leads to a file, and to an anchor of it that exists, as a reader of GitHub sees it."""
    ours = [link.removeprefix(_PAGES) for link in shown.links if link.startswith(_REPOSITORY)]
    local = [link for link in links(page("README.md")) if not link.startswith("https://")]
    assert sorted(ours + [_path(each) for each in shown.pictures]) == sorted(local)
    for path, _, anchor in (link.partition("#") for link in ours):
        # On GitHub such a page is no more than a link to the one that the site has there.
        assert "{root-page}" not in page(path), path
        assert not anchor or anchor in anchors(page(path)), path


def test_pictures_are_raw_files(shown: _References) -> None:
    """Each is an SVG of this checkout, at the address that gives the file itself."""
    assert shown.pictures
    for picture in shown.pictures:
        assert picture.startswith(_PICTURES)
        assert (ROOT / _path(picture)).read_text("utf-8").startswith("<svg")


def test_the_readme_itself_stays_relative() -> None:
    """In a checkout and in a fork its links lead to the checkout and to the fork."""
    assert [] == [link for link in links(page("README.md")) if "github" in link]


def _path(picture: str) -> str:
    return picture.removeprefix(_PICTURES)
