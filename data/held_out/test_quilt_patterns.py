"""Tests for quilt_patterns."""

import contextlib
import io
import unittest
from unittest import mock

import quilt_patterns as quilt


def blocks_of_all_sizes(limit=4):
    """Yield one block of distinct patches for each small size."""
    for rows in range(1, limit + 1):
        for cols in range(1, limit + 1):
            yield [[r * cols + c for c in range(cols)] for r in range(rows)]


class BlockTestCase(unittest.TestCase):
    """Adds an assertion that shows two blocks side by side on failure."""

    def assertBlockEqual(self, first, second, msg=None):
        if first != second:
            text = "blocks differ:\n%s\n---\n%s" % (
                quilt.render(first),
                quilt.render(second),
            )
            self.fail(self._formatMessage(msg, text))


class MakeBlockTest(BlockTestCase):

    def test_size(self):
        block = quilt.make_block(2, 3)
        self.assertEqual(quilt.block_size(block), (2, 3))

    def test_fabric(self):
        block = quilt.make_block(2, 2, fabric=5)
        self.assertBlockEqual(block, [[5, 5], [5, 5]])

    def test_rows_are_independent(self):
        block = quilt.make_block(3, 3)
        block[0][0] = 7
        self.assertEqual(block[1][0], 0)
        self.assertEqual(block[2][0], 0)

    def test_empty_block_is_refused(self):
        for rows, cols in [(0, 1), (1, 0), (-1, 4)]:
            with self.subTest(rows=rows, cols=cols):
                with self.assertRaises(ValueError):
                    quilt.make_block(rows, cols)

    def test_uneven_block_is_refused(self):
        with self.assertRaisesRegex(ValueError, "uneven"):
            quilt.block_size([[1, 2, 3], [1, 2]])

    def test_check_square(self):
        self.assertEqual(quilt.check_square(quilt.make_block(4, 4)), 4)
        with self.assertRaisesRegex(ValueError, "2 by 5"):
            quilt.check_square(quilt.make_block(2, 5))


class TurningTest(BlockTestCase):

    def setUp(self):
        self.block = [[1, 2], [3, 4], [5, 6]]

    def test_rotate_once(self):
        self.assertBlockEqual(quilt.rotate(self.block), [[5, 3, 1], [6, 4, 2]])

    def test_rotate_twice(self):
        expected = quilt.mirror(quilt.flip(self.block))
        self.assertBlockEqual(quilt.rotate(self.block, 2), expected)

    def test_four_turns_change_nothing(self):
        for block in blocks_of_all_sizes():
            with self.subTest(block=block):
                self.assertBlockEqual(quilt.rotate(block, 4), block)

    def test_negative_turns(self):
        for block in blocks_of_all_sizes():
            with self.subTest(block=block):
                self.assertBlockEqual(quilt.rotate(block, -1), quilt.rotate(block, 3))

    def test_flip_and_mirror_undo_themselves(self):
        for turn in (quilt.flip, quilt.mirror):
            for block in blocks_of_all_sizes():
                with self.subTest(turn=turn.__name__, block=block):
                    self.assertBlockEqual(turn(turn(block)), block)

    def test_arguments_are_not_changed(self):
        before = quilt.copy_block(self.block)
        for turn in (quilt.rotate, quilt.flip, quilt.mirror):
            result = turn(self.block)
            result[0][0] = 99
            self.assertBlockEqual(self.block, before)


class SewingTest(BlockTestCase):

    def test_beside(self):
        block = quilt.beside([[1], [2]], [[3], [4]])
        self.assertBlockEqual(block, [[1, 3], [2, 4]])

    def test_above(self):
        block = quilt.above([[1, 2]], [[3, 4]])
        self.assertBlockEqual(block, [[1, 2], [3, 4]])

    def test_blocks_must_fit(self):
        with self.assertRaisesRegex(ValueError, "height"):
            quilt.beside([[1]], [[1], [1]])
        with self.assertRaisesRegex(ValueError, "width"):
            quilt.above([[1]], [[1, 1]])

    def test_repeat(self):
        block = quilt.repeat([[1, 2]], 2, 3)
        self.assertBlockEqual(block, [[1, 2, 1, 2, 1, 2]] * 2)

    def test_border(self):
        block = quilt.border([[1]], 2)
        self.assertBlockEqual(block, [[2, 2, 2], [2, 1, 2], [2, 2, 2]])

    def test_pinwheel_has_quarter_turn(self):
        for size in range(1, 6):
            with self.subTest(size=size):
                block = quilt.pinwheel(quilt.half_triangle(size))
                self.assertTrue(quilt.has_quarter_turn(block))


class PatternTest(BlockTestCase):

    def test_carpet_count(self):
        for depth in range(4):
            with self.subTest(depth=depth):
                counts = quilt.count_fabrics(quilt.carpet(depth))
                self.assertEqual(counts[1], 8 ** depth)
                self.assertEqual(sum(counts.values()), 9 ** depth)

    def test_log_cabin_is_symmetric(self):
        block = quilt.log_cabin(3)
        self.assertEqual(quilt.block_size(block), (7, 7))
        self.assertTrue(quilt.is_symmetric(block))
        self.assertTrue(quilt.has_quarter_turn(block))

    def test_crazy_quilt_neighbours_differ(self):
        block = quilt.crazy_quilt(8, 8, seed=3)
        for row in block:
            for a, b in zip(row, row[1:]):
                self.assertNotEqual(a, b)
        for upper, lower in zip(block, block[1:]):
            for a, b in zip(upper, lower):
                self.assertNotEqual(a, b)

    def test_crazy_quilt_seed(self):
        first = quilt.crazy_quilt(5, 5, seed=1)
        second = quilt.crazy_quilt(5, 5, seed=1)
        self.assertBlockEqual(first, second)


class MainTest(unittest.TestCase):

    def run_main(self, *args):
        stdout, stderr = io.StringIO(), io.StringIO()
        with mock.patch("sys.argv", ["quilt_patterns.py", *args]):
            with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
                quilt.main()
        return stdout.getvalue()

    def test_one_pattern(self):
        output = self.run_main("geese")
        self.assertTrue(output.startswith("geese (6 x 4)\n"))
        self.assertIn("oooooooo", output)

    def test_unknown_pattern(self):
        with self.assertRaises(SystemExit) as caught:
            self.run_main("tartan")
        self.assertEqual(caught.exception.code, 2)


if __name__ == "__main__":
    unittest.main()
