"""Tasks and channels beside greenlets, asyncio, threads and C."""
