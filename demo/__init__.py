"""The main job: Spark writes a year of flights as a Lance dataset; asyncio and Spark read it."""
