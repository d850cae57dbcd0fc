"""The same program made in two places is one program, and a failure names the line that made it."""
import pytest

import shoal


def failure(call):
    with pytest.raises(shoal.InvalidError) as caught:
        call()
    return str(caught.value)


def test_one_program_from_two_places():
    session = shoal.session()
    x = shoal.tensor([[1.0, 2.0], [3.0, 4.0]])

    def here(y):
        return (y @ y).numpy()

    def there(y):
        return (y @ y).numpy()

    here(x)
    before = session.counts().fresh
    assert (there(x) == here(x)).all()
    assert session.counts().fresh == before


def test_failures_name_their_own_line():
    x = shoal.tensor([[1.0, 2.0], [3.0, 4.0]])
    texts = []
    for _ in range(2):
        one = (x @ x).place(axis=0, slots=[99])
        texts.append(failure(one.numpy))
        two = (x @ x).place(axis=0, slots=[99])
        texts.append(failure(two.numpy))
        texts[-1] = failure((two + 1.0).numpy)  # the first cause, in another program
    lines = [line for line, text in enumerate(open(__file__, encoding="utf-8"), 1)
             if " = (x @ x).place(axis=0" in text]
    for i, text in enumerate(texts):
        assert f"lines_test.py:{lines[i % 2]}" in text and "<node" not in text, text
