"""Tests for seed_catalogue."""

import contextlib
import io
import json
import os
import shutil
import tempfile
import unittest

import seed_catalogue
from seed_catalogue import Catalogue, CatalogueError, Packet

CSV_TEXT = """\
code,name,species,packed,keeps,count
bean-03,Runner bean,Phaseolus coccineus,2017,3,40
LEEK-01,Leek,Allium porrum,2018,2,150
PARS-02,Parsnip,,2018,1,85
"""

JSON_RECORDS = [
    {'code': 'BEET-01', 'name': 'Beetroot', 'packed': 2016, 'keeps': 4},
    {'code': 'KALE-05', 'name': 'Black kale', 'packed': 2019, 'count': 200},
]


def make_packet(**kwargs):
    values = {'code': 'PEA-01', 'name': 'Marrowfat pea', 'packed': 2018,
              'keeps': 3, 'count': 60}
    values.update(kwargs)
    return Packet(**values)


class PacketTest(unittest.TestCase):

    def test_code_is_normalised(self):
        packet = make_packet(code='  pea-07 ')
        self.assertEqual(packet.code, 'PEA-07')

    def test_repr(self):
        packet = make_packet()
        self.assertEqual(repr(packet), "<Packet PEA-01 'Marrowfat pea', 60 left>")

    def test_is_stale(self):
        packet = make_packet(packed=2018, keeps=3)
        for year, expected in [(2018, False), (2021, False), (2022, True)]:
            with self.subTest(year=year):
                self.assertIs(packet.is_stale(year), expected)

    def test_from_dict_converts_numbers(self):
        packet = Packet.from_dict({'code': 'a', 'name': 'b', 'count': '12'})
        self.assertEqual(packet.count, 12)

    def test_from_dict_defaults(self):
        packet = Packet.from_dict({'code': 'a', 'name': 'b', 'keeps': ''})
        self.assertEqual(packet.keeps, 3)
        self.assertEqual(packet.count, 0)
        self.assertEqual(packet.species, '')

    def test_from_dict_bad_number(self):
        with self.assertRaisesRegex(CatalogueError, 'packed should be'):
            Packet.from_dict({'code': 'a', 'name': 'b', 'packed': 'spring'})

    def test_from_dict_missing_name(self):
        with self.assertRaisesRegex(CatalogueError, 'no name'):
            Packet.from_dict({'code': 'a'})

    def test_round_trip(self):
        packet = make_packet(species='Pisum sativum')
        record = packet.as_dict()
        self.assertEqual(Packet.from_dict(record).as_dict(), record)


class CatalogueTest(unittest.TestCase):

    def setUp(self):
        self.catalogue = seed_catalogue.read_csv(io.StringIO(CSV_TEXT))

    def codes(self, packets):
        return [packet.code for packet in packets]

    def test_len(self):
        self.assertEqual(len(self.catalogue), 3)
        self.assertEqual(len(Catalogue()), 0)

    def test_iteration_is_sorted_by_code(self):
        self.assertEqual(self.codes(self.catalogue),
                         ['BEAN-03', 'LEEK-01', 'PARS-02'])

    def test_sorted(self):
        self.assertEqual(self.codes(self.catalogue.sorted('count')),
                         ['BEAN-03', 'PARS-02', 'LEEK-01'])

    def test_get_ignores_case(self):
        self.assertEqual(self.catalogue.get('leek-01').name, 'Leek')

    def test_get_unknown(self):
        with self.assertRaises(CatalogueError):
            self.catalogue.get('LEEK-99')

    def test_duplicate(self):
        with self.assertRaisesRegex(CatalogueError, 'duplicate code LEEK-01'):
            self.catalogue.add(make_packet(code='leek-01'))

    def test_stale(self):
        self.assertEqual(self.catalogue.stale(2019), [])
        self.assertEqual(self.codes(self.catalogue.stale(2020)), ['PARS-02'])
        self.assertEqual(len(self.catalogue.stale(2030)), 3)

    def test_sow(self):
        self.assertEqual(self.catalogue.sow('BEAN-03', 15), 25)
        self.assertEqual(self.catalogue.sow('BEAN-03', 25), 0)
        with self.assertRaisesRegex(CatalogueError, 'cannot sow 1 of the 0'):
            self.catalogue.sow('BEAN-03', 1)


class FormatTest(unittest.TestCase):

    def test_read_json(self):
        stream = io.StringIO(json.dumps(JSON_RECORDS))
        catalogue = seed_catalogue.read_json(stream)
        self.assertEqual(catalogue.get('KALE-05').count, 200)

    def test_read_json_invalid(self):
        with self.assertRaisesRegex(CatalogueError, 'not valid JSON'):
            seed_catalogue.read_json(io.StringIO('[1, 2'))

    def test_unknown_file_type(self):
        self.assertRaises(CatalogueError, seed_catalogue.load, 'shed.txt')


class MainTest(unittest.TestCase):

    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)
        self.path = os.path.join(self.dir, 'shed.csv')
        with open(self.path, 'w', encoding='utf-8') as f:
            f.write(CSV_TEXT)

    def run_main(self, *args):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = seed_catalogue.main([self.path] + list(args))
        return status, out.getvalue(), err.getvalue()

    def test_list(self):
        status, out, err = self.run_main('list')
        self.assertEqual(status, 0)
        self.assertEqual(len(out.splitlines()), 3)
        self.assertTrue(out.startswith('BEAN-03'))

    def test_sow_is_saved(self):
        status, out, err = self.run_main('sow', 'pars-02', '5')
        self.assertEqual((status, out), (0, '80 left\n'))
        self.assertEqual(seed_catalogue.load(self.path).get('PARS-02').count, 80)

    def test_error_is_reported(self):
        status, out, err = self.run_main('sow', 'PARS-02', '500')
        self.assertEqual(status, 1)
        self.assertIn('cannot sow 500 of the 85 seeds', err)


if __name__ == '__main__':
    unittest.main()
