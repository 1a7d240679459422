# SPDX-License-Identifier: Apache-2.0
"""Records of the benchmark: loading them, and what is known of each GPU. Old names become new ones,
so that whoever reads a Gpu meets one form of each thing."""
import json

# Field names in older records, and their names now.
RENAMED = {"overlap_us": "pdl_us", "overlap_spread": "pdl_spread", "overlap_ratio": "pdl_ratio",
           "overlap_copy_share": "pdl_copy_share", "plain_us": "no_epilogue_us",
           "plain_overlap_us": "no_epilogue_pdl_us", "catenary overlapped": "catenary PDL"}


def renamed(row):
    return {RENAMED.get(key, key): value for key, value in row.items()}


def named_rows(section):
    """The rows of {"columns": [...], "rows": [[...], ...]} as dictionaries."""
    return [renamed(zip_row(section["columns"], values)) for values in section["rows"]]


def zip_row(columns, values):
    return dict(zip(columns, values))


def layer_rows(record):
    """The layers of a sweep, their candidates as dictionaries too."""
    section = record["layers"]
    rows = named_rows(section)
    for row in rows:
        row["candidates"] = [zip_row(section["candidate_columns"], one)
                             for one in row["candidates"]]
    return rows


def choice_rows(record):
    """The layers of a sweep over candidates: batch, m, n, k, gated, and `tiles` (the candidates)."""
    if isinstance(record.get("gemm_sweep"), dict):
        section = record["gemm_sweep"]
        rows = named_rows(section)
        for row in rows:
            row["tiles"] = [zip_row(section["tile_columns"], one) for one in row["tiles"] or []]
        return rows
    if record.get("sweep_name") != "gemm":
        return []
    return [{**row, "tiles": row["candidates"], "gated": row["epilogue"] == "swiglu"}
            for row in layer_rows(record)]


def small_rows(record):
    """The layers of a sweep over small M."""
    if isinstance(record.get("sweep"), dict):
        return named_rows(record["sweep"])
    return layer_rows(record) if record.get("sweep_name") == "small" else []


def shape_text(row):
    batch = f"{row['batch']} x " if row["batch"] > 1 else ""
    return f"{batch}{row['m']}x{row['n']}x{row['k']}" + (", dual" if row["gated"] else "")


def replace(rows, key, row):
    """Rows move to the end, so that the order is that of the newest run."""
    rows.pop(key, None)
    rows[key] = row


class Gpu:
    """The newest of each thing that is known of one GPU."""

    def __init__(self, name):
        self.name = name
        self.record = None  # the newest one with ceilings
        self.runs = {}  # those with ceilings by commit, the newest of each
        self.rows = {}
        self.launch = {}
        self.compile = {}
        self.calibration = {}  # rows by name
        self.sweep = {}  # rows of the sweep over small M by (m, k, n)
        self.choices = {}  # rows of the sweep over candidates by shape
        self.layers = {"models": {}, "random": {}}  # rows of other sweeps
        self.peers = {}  # rows of peers.py by (bias_silu, k, n, m)
        self.large_peers = {}  # rows of peers.py --large by case
        self.counters = {}  # rows of counters.py by case
        self.tuned = {}  # rows of tune_gaps.py by shape
        self.training = {}  # contenders of torch_training.py by row and name
        self.whole_models = {}  # rows of torch_models.py by model, layers and workload
        self.decoder_layers = {}  # rows of torch_layers.py by model and rows
        self.quantised_peers = {}  # rows of torch_quantised.py by format, m, n, k
        self.forms = {}  # rows of torch_forms.py by form, m, n, k
        self.commits = {}  # of the rows, in the order of the runs, by table

    def note(self, table, record):
        commit = (record.get("commit") or "")[:7]
        if commit and commit not in self.commits.setdefault(table, []):
            self.commits[table].append(commit)

    def add(self, record):
        if record.get("quick") or record.get("tuning"):
            return
        for table in ("launch", "compile", "calibration", "peers", "large_peers", "counters", "tuned",
                      "training"):
            if record.get(table):
                self.note(table, record)
        if is_whole_models(record):
            return self.add_whole_models(record)
        if is_decoder_layers(record):
            return self.add_decoder_layers(record)
        if is_quantised_peers(record):
            return self.add_quantised_peers(record)
        if is_forms(record):
            return self.add_forms(record)
        if has_list(record, "counters"):
            for row in record["counters"]:
                replace(self.counters, row["case"], row)
        elif has_list(record, "tuned"):
            for row in record["tuned"]:
                replace(self.tuned, shape_text(row), row)
        elif has_list(record, "training"):
            self.add_training(record["training"])
        elif is_peers(record):
            self.add_peers(record)
        elif not self.add_sweeps(record):
            self.add_cases(record)

    def add_cases(self, record):
        if (record.get("ceilings") or {}).get("copy_tbs"):
            self.record = record
            replace(self.runs, record.get("commit"), record)
        for row in record.get("rows", []):
            row = {**renamed(row), "commit": row.get("commit") or record.get("commit")}
            replace(self.rows, row["case"], row)
        for row in record.get("launch", []):
            self.launch[row["kernel"]] = row
        for row in record.get("compile", []):
            self.compile[row["chain"]] = row
        for row in record.get("calibration", []):
            replace(self.calibration, row["name"], row)

    def drop_random_of_others(self, record):
        """Random layers of other kernels have other shapes, which no newer row would replace."""
        if self.commits.get("random", []) != [(record.get("commit") or "")[:7]]:
            self.layers["random"].clear()
            self.commits["random"] = []

    def add_sweeps(self, record):
        """True if it is a record of a sweep."""
        small, choices = small_rows(record), choice_rows(record)
        others = self.layers.get(record.get("sweep_name"))
        for table, rows in (("sweep", small), ("choices", choices)):
            if rows:
                self.note(table, record)
        if record.get("sweep_name") == "random":
            self.drop_random_of_others(record)
        if others is not None:
            self.note(record["sweep_name"], record)
        for row in small:
            self.sweep[row["m"], row["k"], row["n"]] = {**row, "device": record.get("device")}
        for row in choices:
            key = tuple(row[name] for name in ("batch", "m", "n", "k", "gated"))
            self.choices[key] = row
        for row in layer_rows(record) if others is not None else []:
            replace(others, tuple(row[name] for name in ("kind", "shape", "dtype", "epilogue")), row)
        return bool(small or choices) or others is not None

    def add_peers(self, record):
        for row in record.get("large_peers", []):
            replace(self.large_peers, row["case"], row)
        for row in record.get("peers", []):
            row = {**row, "copy_tbs": record.get("copy_tbs"), "times": renamed(row["times"])}
            self.peers[row["bias_silu"], row["k"], row["n"], row["m"]] = row


    def add_whole_models(self, record):
        self.note("whole_models", record)
        for row in record["rows"]:
            replace(self.whole_models, (row["model"], row["layers"], row["workload"]), row)

    def add_decoder_layers(self, record):
        """A later record replaces the contenders that it has."""
        self.note("decoder_layers", record)
        for row in record["table"]:
            known = self.decoder_layers.setdefault((row["model"], row["rows"]), {"contenders": {}})
            contenders = {**known["contenders"], **row["contenders"]}
            known |= {**row, "contenders": contenders}

    def add_quantised_peers(self, record):
        self.note("quantised_peers", record)
        for row in record["table"]:
            replace(self.quantised_peers, (row["format"], row["m"], row["n"], row["k"]), row)

    def add_forms(self, record):
        self.note("forms", record)
        for row in record["table"]:
            replace(self.forms, (row["form"], row["m"], *row["n"], row["k"]), row)

    def add_training(self, rows):
        """A later record replaces the contenders that it has. `speed`: that of ours against the
        contender, in the process that timed both."""
        for row in rows:
            contenders = by_what_is_saved(row["contenders"])
            ours = contenders.get("catenary", contenders.get("catenary chains"))
            known = self.training.pop(row["row"], {"flops": row["flops"], "contenders": {}})
            self.training[row["row"]] = known
            for name, entry in contenders.items():
                speed = entry["us"] / ours["us"] if ours else None
                known["contenders"][name] = {**entry, "speed": speed}


def by_what_is_saved(contenders):
    """Older records have "catenary unstored", today's default, beside "catenary", then recompute="none"."""
    if "catenary unstored" not in contenders:
        return contenders
    names = {"catenary": "catenary none", "catenary unstored": "catenary"}
    return {names.get(name, name): entry for name, entry in contenders.items()}


def has_list(data, key):
    return isinstance(data.get(key), list)


def is_peers(data):
    return has_list(data, "peers") or has_list(data, "large_peers")


def is_whole_models(data):
    return data.get("kind") == "whole models" and has_list(data, "rows")


def is_decoder_layers(data):
    return data.get("kind") == "decoder layers" and has_list(data, "table")


def is_quantised_peers(data):
    return data.get("kind") == "quantised peers" and has_list(data, "table")


def is_forms(data):
    return data.get("kind") == "forms of layers" and has_list(data, "table")


def is_record(data):
    if not isinstance(data, dict):
        return False
    return (is_peers(data) or is_whole_models(data) or is_decoder_layers(data) or is_quantised_peers(data) or
            is_forms(data) or
            any(has_list(data, key) for key in ("counters", "tuned", "training")) or
            (has_list(data, "rows") and "ceilings" in data))


def load_packs(results):
    """The newest record of packs.py; None if there is none."""
    records = [json.loads(path.read_text(encoding="utf-8"))
               for path in sorted((results / "packs").glob("*.json"))]
    return max(records, key=lambda record: record["date"]) if records else None


def load(results):
    """Gpus by name. Files that are not records of the benchmark are ignored."""
    gpus = {}
    for folder in sorted(p for p in results.iterdir() if p.is_dir()):
        records = []
        for path in sorted(folder.glob("*.json")):
            try:
                data = json.loads(path.read_text())
            except ValueError as error:
                raise SystemExit(f"{path} is not JSON ({error}): remove or repair it")
            if is_record(data):
                records.append(data)
        if not records:
            continue
        gpu = gpus.setdefault(folder.name, Gpu(folder.name))
        for record in sorted(records, key=lambda r: r.get("date") or ""):
            gpu.add(record)
    return gpus
