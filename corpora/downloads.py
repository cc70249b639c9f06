"""The shards of a corpus over HTTP(S), in parallel.

A shard whose SHA-256 is known must have it. The SHA-256 of any other is recorded in a sha256sum list when it first
arrives, and checked from then on.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

from corpora.shards import open_parquet
from corpora.transfer import fetch, is_there
from evidence import write_atomic
from manifest import format_manifest, read_manifest


def _progress_bar(count):
    if sys.stderr.isatty():
        from tqdm import tqdm

        return tqdm(desc=f"downloading {count} files", unit="B", unit_scale=True)
    return None


def fetch_all(base_url, names, folder, known, first_use, accept, retry=None, threads=4):
    """Make every file of `names` present in `folder`; return {name: SHA-256}.

    `known` {name: SHA-256} comes from a manifest. Other names are looked up in the list `first_use`, which records
    them when they are new. A file that is already there with the right SHA-256 is not fetched again.
    """
    recorded = read_manifest(first_use) if first_use.exists() else {}
    lock, stop = threading.Lock(), threading.Event()
    known = recorded | known
    missing = [name for name in names if not is_there(folder / name, known.get(name))]
    bar = _progress_bar(len(missing))

    def fetch_one(name):
        progress = bar.update if bar else lambda count: None
        digest = fetch(f"{base_url}/{name}", folder / name, known.get(name), retry, stop, progress, accept)
        with lock:
            print(f"corpus: {name} downloaded", flush=True)
            if name not in known:
                recorded[name] = digest
                write_atomic(first_use, format_manifest(recorded))
                print(f"corpus: {name}: SHA-256 {digest} recorded on first use in {first_use}", flush=True)
        return name, digest

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(fetch_one, name) for name in missing]
        try:
            done = dict(future.result() for future in as_completed(futures))
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            if bar:
                bar.close()
    return {name: done.get(name) or known[name] for name in names}


def write_downloads(staged, corpus, known, first_use, retry=None):
    """Make the folder `staged` hold the corpus's shards and nothing else; return {}, for want of further facts."""
    wanted = [*corpus["train_shards"], corpus["validation_shard"]]
    for stray in staged.iterdir():
        if not any(stray.name.startswith(name) for name in wanted):
            stray.unlink()
    fetch_all(corpus["base_url"], wanted, staged, known, first_use,
              lambda path: open_parquet(path, corpus["text_column"]), retry)
    return {}
