"""Writes tables as Spark does, and beside each the rows of each version: `TABLE-VERSION.txt`."""

import datetime
import json
import os
import urllib.parse

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

FIELDS = [("id", "long"), ("day", "date"), ("name", "string")]
COMMITS = int(datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc).timestamp())


class Table:
    def __init__(self, name):
        self.name, self.version, self.active, self.known = name, 0, {}, {}
        os.makedirs(f"{name}/_delta_log")

    def metadata(self, fields, settings=None):
        fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields]
        self.fields = [one["name"] for one in fields]
        self.described = {
            "id": "t",
            "format": {"provider": "parquet", "options": {}},
            "partitionColumns": ["day"],
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "configuration": settings or {},
        }
        return {"metaData": self.described}

    def add(self, first, day, file, **more):
        folder = f"day={day or '__HIVE_DEFAULT_PARTITION__'}"
        path = f"{folder}/{file}.parquet"
        os.makedirs(f"{self.name}/{folder}", exist_ok=True)
        ids = range(first, first + 20)
        table = pa.table({"id": ids, "name": [f"n{one}" if one % 3 else None for one in ids], **more})
        pq.write_table(table, f"{self.name}/{path}", compression="snappy", row_group_size=6)
        size = os.path.getsize(f"{self.name}/{path}")
        self.active[path] = added = {
            "path": urllib.parse.quote(path),
            "partitionValues": {"day": day},
            "size": size,
        }
        self.known[path] = table
        return {"add": {**added, "modificationTime": 1, "dataChange": True, "stats": "{}"}}

    def remove(self, path):
        del self.active[path]
        return {"remove": {"path": urllib.parse.quote(path), "dataChange": True}}

    def commit(self, *actions, info=None, at=None):
        path = f"{self.name}/_delta_log/{self.version:020}.json"
        with open(path, "w") as file:
            for action in ({"commitInfo": info or {}}, *actions):
                file.write(json.dumps(action) + "\n")
        at = COMMITS + 10 * self.version if at is None else at
        os.utime(path, (at, at))
        with open(f"{self.name}-{self.version}.txt", "w") as file:
            for path in sorted(self.active):
                table = self.known[path]
                day = self.active[path]["partitionValues"]["day"]
                for row in range(table.num_rows):
                    values = {
                        name: table.column(name)[row].as_py() if name in table.column_names else None
                        for name in self.fields
                    }
                    values["day"] = day
                    shown = {
                        name: str(float("nan") if value is None and name == "score" else value)
                        for name, value in values.items()
                    }
                    if shown["name"] == "None":
                        shown["name"] = str(pd.DataFrame({"name": ["a", None]})["name"].iloc[1])
                    file.write(f"{shown}\n")
        self.version += 1

    def checkpoint(self, parts=1):
        texts = pa.map_(pa.string(), pa.string())
        schema = pa.schema(
            [
                ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
                (
                    "metaData",
                    pa.struct(
                        [
                            ("id", pa.string()),
                            ("format", pa.struct([("provider", pa.string()), ("options", texts)])),
                            ("schemaString", pa.string()),
                            ("partitionColumns", pa.list_(pa.string())),
                            ("configuration", texts),
                        ]
                    ),
                ),
                (
                    "add",
                    pa.struct(
                        [
                            ("path", pa.string()),
                            ("partitionValues", texts),
                            ("size", pa.int64()),
                            ("stats", pa.string()),
                        ]
                    ),
                ),
            ]
        )
        metadata = {
            **self.described,
            "format": {"provider": "parquet", "options": []},
            "configuration": list(self.described["configuration"].items()),
        }
        rows = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
        for one in self.active.values():
            rows.append({"add": {**one, "partitionValues": list(one["partitionValues"].items())}})
        version = self.version - 1
        for part in range(parts):
            name = "checkpoint" if parts == 1 else f"checkpoint.{part + 1:010}.{parts:010}"
            mine = pa.Table.from_pylist(rows[part::parts], schema)
            pq.write_table(mine, f"{self.name}/_delta_log/{version:020}.{name}.parquet", compression="snappy")
        with open(f"{self.name}/_delta_log/_last_checkpoint", "w") as file:
            json.dump({"version": version, "size": len(rows)}, file)


PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
sales = Table("sales")
sales.commit(
    PROTOCOL, sales.metadata(FIELDS), sales.add(0, "2024-01-02", "b"), sales.add(20, "2024-01-01", "a")
)
sales.commit(sales.add(40, None, "none"))
sales.commit(sales.remove("day=2024-01-01/a.parquet"), sales.add(60, "2024-01-01", "a two%"))
sales.commit(
    sales.metadata([*FIELDS, ("score", "double")]),
    sales.add(80, "2024-01-03", "c", score=[one / 4 for one in range(20)]),
)
sales.checkpoint()
sales.commit(sales.add(100, "2024-01-03", "d", score=[0.5] * 20))
sales.commit(sales.remove("day=2024-01-03/c.parquet"))
sales.checkpoint(parts=2)
sales.commit(sales.remove("day=2024-01-02/b.parquet"))

own = Table("own")
own.commit(PROTOCOL, own.metadata(FIELDS), own.add(0, "2024-01-01", "a"))
own.commit(own.add(20, "2024-01-02", "b"))
settings = {
    "delta.enableInCommitTimestamps": "true",
    "delta.inCommitTimestampEnablementVersion": "2",
    "delta.inCommitTimestampEnablementTimestamp": f"{(COMMITS + 1000) * 1000}",
}
# Files of these were written in another order, as those of a copy are.
own.commit(
    own.metadata(FIELDS, settings), info={"inCommitTimestamp": (COMMITS + 1000) * 1000}, at=COMMITS + 5000
)
for number in range(3, 7):
    made = {"inCommitTimestamp": (COMMITS + 1000 * (number - 1)) * 1000}
    own.commit(own.add(20 * number, "2024-01-03", f"f{number}"), info=made, at=COMMITS)
