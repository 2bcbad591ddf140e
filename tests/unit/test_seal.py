"""Texts that no test can judge are those that somebody has read beside their values."""

import json

from course_utils.course import claims
from tests import seal


def test_what_only_a_reader_can_judge_was_read():
    sealed = json.loads(seal.SEALED.read_text(encoding="utf-8"))
    now = seal.digests()
    changed = [place for place in sorted(sealed | now) if sealed.get(place) != now.get(place)]
    advice = "read in git's diff whether they are still true, and run python -m tests.seal"
    assert not changed, f"These texts, or values beside them, have changed: {changed}; {advice}"


def test_a_changed_word_and_a_changed_value_break_the_seal(monkeypatch):
    place = "05_max_of_list: because, control, always, source"
    before = seal.digests()[place]
    table = claims.table("05_max_of_list")
    statement = "largest number with the most wrong lists"
    for changed in ({"because": "16 has the widest step below it."}, {"value": "15"}):
        monkeypatch.setitem(table, statement, table[statement] | changed)
        assert seal.digests()[place] != before
        monkeypatch.undo()
