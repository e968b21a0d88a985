"""Open-domain tool retrieval: a task offers what a retriever finds in the whole catalogue, and agents may search for more."""

from .retriever import RetrievedTasks, Retriever
from .settings import RETRIEVERS, Retrieval

__all__ = ["RETRIEVERS", "Retrieval", "RetrievedTasks", "Retriever"]
