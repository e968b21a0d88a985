"""Open-domain tool retrieval: a task offers what a retriever finds in the whole catalogue, and agents may search for more."""

from costgym.simulators.retrieval.retriever import RETRIEVERS, Retrieval, RetrievedTasks, Retriever

__all__ = ["RETRIEVERS", "Retrieval", "RetrievedTasks", "Retriever"]
