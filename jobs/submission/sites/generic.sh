# shellcheck shell=bash disable=SC2034
# Any Slurm cluster whose MPI knows Slurm's PMIx. Copy this file to jobs/submission/sites/MYSITE.sh and fill in what is
# yours; every variable can also be given on the command line (--partition gpu) or in the environment
# (MRMF_PARTITION=gpu). Tested with Debian 12's Slurm 22.05 and Open MPI 4.1.
scheduler=slurm
mpi=pmix             # what `srun --mpi=list` has and the MPI of the program understands: pmix, pmi2, cray_shasta
partition=           # empty: the cluster's default; so for all below
qos=
account=
constraint=
ranks_per_node=
cpus_per_rank=1      # also the threads of a rank
gpus_per_rank=0      # 1 where the nodes have GPUs; needs ranks_per_node
sbatch_options=()    # anything else, such as (--exclusive --mem=0)

# Runs in the job before mrmf, and at submission where the configuration is checked: modules and environment.
prepare() {
  :
}
