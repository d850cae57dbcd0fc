"""In place, through views: what is done to a view is done to what it shares elements with."""


def viewed(n, sign):
    """Two views of a copy, whose axes are in another order, and which are cut apart somewhere."""
    a, b = n.x
    if len(n.shape) < 2:
        return []
    order = sorted(range(len(n.shape)), key=lambda _: n.chance())
    at = int(n.chance() * (n.shape[order[0]] + 1))
    lines = [f"{{y}} = {a}.clone()"]
    for key in (f"[:{at}]", f"[{at}:]"):
        lines += [f"view = {{y}}.permute({order}){key}", f"view {sign}= {b}.permute({order}){key}"]
    return ["\n".join(lines)]
