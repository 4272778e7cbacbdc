"""W4 with boto3 and 16 threads. Usage: w4_boto3.py COUNT

Reads the COUNT objects below $S3_PREFIX in $S3_BUCKET at $S3_ENDPOINT.
"""

import concurrent.futures
import os
import posixpath
import sys
import zlib

import boto3
import botocore.config
from harness import output, timed, write_rows

THREADS = 16


def checksum(key):
    body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    return f"{posixpath.basename(key)}: {zlib.crc32(body)}"


def keys():
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=os.environ["S3_PREFIX"])
    return [found["Key"] for page in pages for found in page.get("Contents", [])]


if __name__ == "__main__":
    bucket = os.environ["S3_BUCKET"]
    settings = botocore.config.Config(max_pool_connections=THREADS)
    s3 = boto3.client("s3", endpoint_url=os.environ["S3_ENDPOINT"], region_name="us-east-1", config=settings)
    with (
        timed("boto3, 16 threads", "W4", int(sys.argv[1])),
        concurrent.futures.ThreadPoolExecutor(THREADS) as pool,
        open(output("rows.txt"), "w") as file,
    ):
        write_rows(file, pool.map(checksum, keys()))
