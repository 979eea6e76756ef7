"""The samples of the study: a line for each task, with its number. Usage: tasks.py COUNT FILE"""
import sys

count, path = int(sys.argv[1]), sys.argv[2]
with open(path, "w", encoding="utf-8") as file:
    file.writelines(f"{task}\n" for task in range(count))
