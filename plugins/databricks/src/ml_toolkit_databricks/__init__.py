"""ml-toolkit on Databricks GPU compute, with Unity Catalog."""
