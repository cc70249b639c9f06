"""Who runs a study: the lock that keeps a second runner out, and the ledger of all reservations of a device."""

import json
import os
import sys
from datetime import UTC, datetime

from evidence import InputError, parse_json, require_keys
from files import naming
from surroundings import is_alive, lock


def lock_study(directory):
    """Return an open, locked file; InputError names the living holders when a runner or a run of one has the lock."""
    path = directory / ".lock"
    file = lock(path)
    if file:
        return file
    text = path.read_text(encoding="utf-8")
    holders = parse_json(text.encode(), path) if text else {}
    living = [f"{name} (process {pid})" for name, pid in holders.items() if is_alive(pid)]
    raise InputError(f"{path}: locked by {' and '.join(living) or 'a starting runner'}; wait for it, or stop it")


def note_holders(file, holders):
    """Write {name: process} of those that have the lock into its file."""
    file.truncate(0)
    file.write(json.dumps(holders))
    file.flush()


def utc_now():
    """Return the time like 2026-01-31T12:00:00.000Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Ledger:
    """Append-only reservations: one canonical JSON object a line, `event` "start" or "end", all with the same keys.

    `attempt` counts a run's reservations from 1; times are UTC; `exit_status` is negative for a signal. If a runner is
    killed, a later one writes the missing end, as "lost" and without a time. A last line that a killed runner or a full
    disk left incomplete is removed; only the holder of the study's lock may open the ledger.
    """

    KEYS = ("event", "run", "attempt", "device", "start", "end", "seconds", "outcome", "exit_status")

    def __init__(self, path):
        self.path = path
        data = path.read_bytes() if path.exists() else b""
        *lines, tail = data.split(b"\n")
        if tail:
            print(f"{path}:{len(lines) + 1}: removed an incomplete line that an earlier runner left", file=sys.stderr)
            with naming(path):
                os.truncate(path, len(data) - len(tail))
        self.entries = [parse_json(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]
        for number, entry in enumerate(self.entries, 1):
            require_keys(entry, self.KEYS, f"{path}:{number}")

    def append(self, entry):
        """Add one line, which is on the disk when this returns; if it cannot be written whole, none of it stays."""
        line = json.dumps(entry, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        with naming(self.path), open(self.path, "ab", buffering=0) as file:
            size = file.tell()
            try:
                data = line.encode() + b"\n"
                while data:
                    data = data[file.write(data):]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise
        self.entries.append(entry)
        return entry

    def start(self, run, device):
        """Add and return the start of a run's next attempt."""
        attempt = 1 + sum(entry["run"] == run and entry["event"] == "start" for entry in self.entries)
        return self.append({**dict.fromkeys(self.KEYS), "event": "start", "run": run, "attempt": attempt,
                            "device": device, "start": utc_now()})

    def close_lost(self):
        """Add and return the missing ends."""
        ended = {(entry["run"], entry["attempt"]) for entry in self.entries if entry["event"] == "end"}
        return [self.append({**entry, "event": "end", "outcome": "lost"}) for entry in list(self.entries)
                if entry["event"] == "start" and (entry["run"], entry["attempt"]) not in ended]
