#!/usr/bin/env python3
"""Keep a catalogue of seed packets.

The catalogue is read from a CSV or a JSON file, chosen by the file name
extension.  Every record has these fields:

    code      a short unique code, such as BEAN-03
    name      the common name
    species   the botanical name (may be empty)
    packed    the year in which the packet was filled
    keeps     the number of years for which the seed stays good
    count     the number of seeds left

Usage: seed_catalogue.py shed.csv stale --year 2019
"""

import argparse
import csv
import json
import os
import sys

FIELDS = ['code', 'name', 'species', 'packed', 'keeps', 'count']
NUMERIC = ('packed', 'keeps', 'count')


class CatalogueError(Exception):
    """Something is wrong with a catalogue or with a request made of it."""


class Packet(object):
    """A packet of seed."""

    def __init__(self, code, name, species='', packed=0, keeps=3, count=0):
        self.code = code.strip().upper()
        self.name = name.strip()
        self.species = species.strip()
        self.packed = packed
        self.keeps = keeps
        self.count = count

    def __repr__(self):
        return '<Packet %s %r, %d left>' % (self.code, self.name, self.count)

    @classmethod
    def from_dict(cls, record):
        """Make a packet from a mapping of field names to values."""
        values = {}
        for field in FIELDS:
            value = record.get(field)
            if value is None or value == '':
                continue
            if field in NUMERIC:
                try:
                    value = int(value)
                except (TypeError, ValueError):
                    raise CatalogueError('%s should be a whole number, not %r'
                                         % (field, value))
            values[field] = value
        for field in ('code', 'name'):
            if field not in values:
                raise CatalogueError('record has no %s' % field)
        return cls(**values)

    def as_dict(self):
        return dict((field, getattr(self, field)) for field in FIELDS)

    def is_stale(self, year):
        """Return true if the seed should no longer be sown in that year."""
        return self.packed + self.keeps < year


class Catalogue(object):
    """A set of packets, keyed by code."""

    def __init__(self, packets=()):
        self.packets = {}
        for packet in packets:
            self.add(packet)

    def __len__(self):
        return len(self.packets)

    def __iter__(self):
        return iter(self.sorted('code'))

    def add(self, packet):
        if packet.code in self.packets:
            raise CatalogueError('duplicate code %s' % packet.code)
        self.packets[packet.code] = packet

    def get(self, code):
        try:
            return self.packets[code.strip().upper()]
        except KeyError:
            raise CatalogueError('no packet with code %s' % code)

    def sow(self, code, number):
        """Take a number of seeds out of a packet; return what is left."""
        packet = self.get(code)
        if not 0 <= number <= packet.count:
            raise CatalogueError('cannot sow %d of the %d seeds in %s'
                                 % (number, packet.count, packet.code))
        packet.count -= number
        return packet.count

    def stale(self, year):
        return [packet for packet in self if packet.is_stale(year)]

    def sorted(self, field):
        return sorted(self.packets.values(),
                      key=lambda packet: (getattr(packet, field), packet.code))


def read_csv(stream):
    return Catalogue(Packet.from_dict(row) for row in csv.DictReader(stream))


def write_csv(catalogue, stream):
    writer = csv.DictWriter(stream, FIELDS, lineterminator='\n')
    writer.writeheader()
    for packet in catalogue:
        writer.writerow(packet.as_dict())


def read_json(stream):
    try:
        records = json.load(stream)
    except ValueError as e:
        raise CatalogueError('not valid JSON: %s' % e)
    return Catalogue(Packet.from_dict(record) for record in records)


def write_json(catalogue, stream):
    json.dump([packet.as_dict() for packet in catalogue], stream, indent=2)
    stream.write('\n')


FORMATS = {
    '.csv': (read_csv, write_csv),
    '.json': (read_json, write_json),
}


def find_format(path):
    ext = os.path.splitext(path)[1].lower()
    if ext not in FORMATS:
        raise CatalogueError('unknown file type: %s' % path)
    return FORMATS[ext]


def load(path):
    reader, writer = find_format(path)
    with open(path, newline='', encoding='utf-8') as f:
        return reader(f)


def save(catalogue, path):
    reader, writer = find_format(path)
    with open(path, 'w', newline='', encoding='utf-8') as f:
        writer(catalogue, f)


def print_packets(packets):
    for packet in packets:
        print('%-10s %-24s %4d %6d' % (packet.code, packet.name,
                                       packet.packed, packet.count))


def make_parser():
    parser = argparse.ArgumentParser(description='Keep a seed catalogue.')
    parser.add_argument('file', help='the catalogue, a .csv or .json file')
    commands = parser.add_subparsers(dest='command', required=True)

    p = commands.add_parser('list', help='list all packets')
    p.add_argument('--sort', default='code', choices=FIELDS)

    p = commands.add_parser('stale', help='list packets which are too old')
    p.add_argument('--year', type=int, required=True)

    p = commands.add_parser('sow', help='take seeds out of a packet')
    p.add_argument('code')
    p.add_argument('number', type=int)
    return parser


def main(argv=None):
    args = make_parser().parse_args(argv)
    try:
        catalogue = load(args.file)
        if args.command == 'list':
            print_packets(catalogue.sorted(args.sort))
        elif args.command == 'stale':
            print_packets(catalogue.stale(args.year))
        elif args.command == 'sow':
            left = catalogue.sow(args.code, args.number)
            save(catalogue, args.file)
            print('%d left' % left)
    except (CatalogueError, OSError) as e:
        sys.stderr.write('seed_catalogue: %s\n' % e)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
