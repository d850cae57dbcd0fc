"""Reads and checks Prometheus' text exposition format 0.0.4, written from its description:
https://prometheus.io/docs/instrumenting/exposition_formats
"""
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})? (\S+)")
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
ESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Malformed(Exception):
    """The text breaks a rule of the format."""


def check(good, line, rule):
    if not good:
        raise Malformed(f"{rule}: {line!r}")


def unescape(value):
    return re.sub(r'\\[\\"n]', lambda match: ESCAPED[match[0]], value)


def parse(body):
    """{name: (type, help, {labels as a sorted tuple of pairs: value})} of the bytes of a page."""
    text = body.decode("utf-8")
    check(text == "" or text.endswith("\n"), text[-40:], "the last line ends with a line feed")
    check("\r" not in text, "", "lines end with a line feed alone")
    families, current = {}, None
    for line in text.split("\n")[:-1]:
        words = line.split(" ", 3)
        if words[:2] == ["#", "HELP"]:
            check(re.fullmatch(NAME, words[2]) and len(words) == 4, line, "# HELP NAME TEXT")
            check(words[2] not in families, line, "one HELP for a metric, before its samples")
            current = words[2]
            families[current] = [None, words[3], {}]
        elif words[:2] == ["#", "TYPE"]:
            check(len(words) == 4 and words[3] in TYPES, line, "# TYPE NAME TYPE")
            check(words[2] == current, line, "TYPE comes right after HELP of the same metric")
            check(families[current][0] is None, line, "one TYPE for a metric")
            check(not families[current][2], line, "TYPE comes before samples")
            check((words[3] == "counter") == current.endswith("_total"), line,
                  "counters, and they alone, end with _total")
            families[current][0] = words[3]
        elif line and not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            check(match, line, "NAME{LABELS} VALUE")
            check(match[1] == current and families[current][0], line,
                  "all samples of a metric are one group, after HELP and TYPE")
            pairs = [(name, unescape(value)) for name, value in re.findall(LABEL, match[2] or "")]
            labels = tuple(sorted(pairs))
            check(len(dict(labels)) == len(labels), line, "a label occurs once")
            check(labels not in families[current][2], line, "labels differ between samples")
            value = float(match[match.lastindex])
            check(families[current][0] != "counter" or value >= 0, line, "counters are not negative")
            families[current][2][labels] = value
    for name, (kind, _, _) in families.items():
        check(kind, name, "every metric has a TYPE")
    return {name: tuple(family) for name, family in families.items()}
