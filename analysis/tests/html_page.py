# SPDX-License-Identifier: BSD-3-Clause
"""The elements of a page of `lockstep-report html`, and the check that it loads nothing."""

import base64
import hashlib
import html.parser
import re

VOID = {"meta", "link", "br"}


class Page(html.parser.HTMLParser):
    """The elements of a page: [(tag, attributes, ancestors)], its tables and its texts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.stack = [], []
        self.tables, self.texts = {}, []
        self.table = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        assert len(attributes) == len(attrs)
        self.elements.append((tag, attributes, tuple(self.stack)))
        if tag == "table":
            self.table = self.tables.setdefault(attributes["data-table"], [])
        elif tag == "tr":
            self.table.append([])
        elif tag in ("td", "th"):
            self.table[-1].append("")
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), tuple(self.stack)))

    def handle_endtag(self, tag):
        assert self.stack and self.stack.pop() == tag, tag

    def handle_data(self, data):
        self.texts.append((self.stack[-1] if self.stack else "", data))
        if self.stack and self.stack[-1] in ("td", "th"):
            self.table[-1][-1] += data

    def of(self, tag):
        return [attributes for name, attributes, _ in self.elements if name == tag]


TAG_NAMES = (
    "html head meta title style script body a header h1 h2 button ul ol li "
    "main section div table caption thead tbody tr th td figure figcaption "
    "svg g defs clippath path rect use text p details summary textarea"
)
TAGS = set(TAG_NAMES.split())


def assert_isolated(text):
    """Nothing is loaded from the network, and only the script and style of the page are allowed."""
    page = Page(text)
    (policy,) = (
        a["content"] for a in page.of("meta") if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
        assert page.of(tag) == [{}]
        assert not re.search(r"url\(|@import|fetch|https?://(?!www\.w3\.org/2000/svg)", content)
    assert {tag for tag, _, _ in page.elements} <= TAGS
    for tag, attributes, _ in page.elements:
        assert not any(
            name.startswith("on") or name in ("src", "style", "srcset") for name in attributes
        ), (tag, attributes)
