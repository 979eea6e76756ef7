# shellcheck shell=bash disable=SC2034
# NERSC Perlmutter, GPU nodes: 4 A100 and 64 cores (128 hardware threads) each. NOT RUN THERE: written from NERSC's
# documentation; see jobs/README.md for what to check first. Needs --account. Other queues: --qos debug, --qos preempt
# (cheaper; its jobs are requeued when they are preempted and continue). Keep data and runs on $PSCRATCH.
scheduler=slurm
mpi=cray_shasta      # for a program built with cray-mpich; pmix for one built with NERSC's openmpi module
account=             # the project, such as m1234
needs_account=1
qos=regular
constraint=gpu
ranks_per_node=4
cpus_per_rank=32     # hardware threads: 128 by 4
gpus_per_rank=1
sbatch_options=()
check_at_submission=0  # an MPI program does not run on a login node there

prepare() {
  module load PrgEnv-gnu cray-hdf5-parallel cudatoolkit craype-accel-nvidia80
  export SLURM_CPU_BIND=cores            # else ranks wander between cores
  export OMP_NUM_THREADS=16              # a thread per core, not per hardware thread
  export HDF5_USE_FILE_LOCKING=FALSE     # the community file system knows no locks on compute nodes
}
