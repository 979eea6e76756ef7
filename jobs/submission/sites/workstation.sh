# shellcheck shell=bash disable=SC2034
# One machine without Slurm: the runs of an experiment follow one another at once, under mpirun. kill -USR1 (or Ctrl-C's
# gentler brother, kill -TERM) to mpirun's process stops with a checkpoint; the same command continues.
scheduler=none
cpus_per_rank=       # empty: the ranks share the cores
gpus_per_rank=0

prepare() {
  :
}
