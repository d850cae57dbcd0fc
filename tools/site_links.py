#!/usr/bin/env python3
"""Whether every link within a folder of web pages leads somewhere: to a file, and to a place in it.

    tools/site_links.py FOLDER
"""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from common import report


class Page(HTMLParser):
    """The places and the links of a page."""

    def __init__(self, path):
        super().__init__()
        self.places, self.links = set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places |= {found[key] for key in ("id", "name") if found.get(key)}
        for key in ("href", "src"):
            if found.get(key):
                self.links.append(found[key])


def main(folder):
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    problems, looked_at = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            looked_at += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            place = unquote(parts.fragment)
            if not target.exists():
                problems.append(f"{path.relative_to(folder.resolve())}: {link}: there is no such file")
            elif place and target in pages and place not in pages[target].places:
                problems.append(f"{path.relative_to(folder.resolve())}: {link}: there is no such place")
    return report("links", problems, looked_at)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
