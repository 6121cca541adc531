"""The block of the matrix of each rank: the process grid of NPB 3.4."""

from __future__ import annotations

import gondwana as gw


class Grid:
    """A grid of `rows` x `columns` ranks, numbered row by row, over a square matrix. Local.

    A power of two is divided officially: as many columns as rows of ranks, or twice as many. Any other number of ranks
    makes a single row, so that every column block lies inside one row block. Vectors are divided like the columns, and
    all ranks of a column have the same part.

    Args:
        n: rows of the matrix.
        rank: number of this rank.
        ranks: number of all ranks.

    Attributes:
        rows: ranks in a column of the grid.
        columns: ranks in a row of the grid.
        row: row of this rank.
        column: column of this rank.
        columns_a_row: column blocks that lie inside one row block.
    """

    def __init__(self, n: int, rank: int, ranks: int) -> None:
        exponent = ranks.bit_length() - 1
        self.n, self.rank, self.ranks = n, rank, ranks
        self.rows = 2 ** (exponent // 2) if ranks == 2**exponent else 1
        self.columns = ranks // self.rows
        self.row, self.column = divmod(rank, self.columns)
        self.columns_a_row = self.columns // self.rows

    def row_block(self, row: int) -> gw.RectDomain:
        """Return the rows of the matrix that a row of ranks has. Local."""
        return gw.RectDomain((0,), (self.n,)).subblock((self.rows,), (row,))

    def column_block(self, column: int) -> gw.RectDomain:
        """Return the columns of the matrix, and elements of vectors, that a column of ranks has. Local."""
        row, part = divmod(column, self.columns_a_row)
        return self.row_block(row).subblock((self.columns_a_row,), (part,))

    @property
    def block(self) -> tuple[gw.RectDomain, gw.RectDomain]:
        """Rows and columns of this rank's part of the matrix."""
        return self.row_block(self.row), self.column_block(self.column)

    def columns_inside(self, row: int) -> range:
        """Return the column blocks that lie inside a row block. Local."""
        return range(row * self.columns_a_row, (row + 1) * self.columns_a_row)

    @property
    def partner(self) -> int:
        """The rank whose rows hold the columns of this one, while its columns lie in the rows of this one."""
        row, part = divmod(self.column, self.columns_a_row)
        return row * self.columns + self.columns_inside(self.row)[part]
