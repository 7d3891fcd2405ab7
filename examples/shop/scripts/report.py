#!/usr/bin/env python3
"""Writes output/stock.csv: what is in stock and what it is worth."""

import csv
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from shop.catalog import Catalog, format_price  # noqa: E402


def main():
    target = ROOT / "output" / "stock.csv"
    target.parent.mkdir(exist_ok=True)
    with target.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["sku", "name", "stock", "value"])
        for product in Catalog():
            rows.writerow([product.sku, product.name, product.stock, format_price(product.price_cents * product.stock)])
    print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
