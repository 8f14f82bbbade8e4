-- vocabulary.lua - the meanings of parameters whose names mean the same in many functions. A
-- declaration without a text for such a parameter gets the text of this file. The texts are in
-- groups. A group applies to declarations whose path begins with the group's key; of several groups
-- that have the parameter, the one with the longest key wins.

local packages = require "tlua.packages"

local M = {}

local groups <const> = {
   [""] = [[
...: further arguments
A: the matrix, or a batch of them
B: the right-hand side
LU_data: a factorisation
LU_pivots: the exchanged rows
accumulate: whether values are added to those that are there
align_corners: whether the corner pixels keep their place
argnums: the number of the argument, from 1, or a list of them
assign: whether the module takes the given tensors instead of copying their elements
atol: the absolute tolerance
axis0: a dimension
axis1: a dimension
b_hh: the bias of the state
b_ih: the bias of the input
batch_first: whether the batch is the first dimension
bias: the bias, or none
bidirectional: whether a second pass goes from the last step to the first
callback: the function that is called
cast_inputs: the dtype that floating-point arguments are converted to
ccol_indices: the positions at which columns begin, from 1, and one behind the last
ceil_mode: whether a last, incomplete window counts
check_invariants: whether positions are checked; check_sparse_tensor_invariants has the default
chunk_size: the number of examples that are computed at once
cls: the class, or a list of classes
col_indices: the columns of the elements, or of the blocks, from 1
compressed_indices: the positions at which rows or columns begin, from 1, and one behind the last
correction: the number that is subtracted from n in the divisor of a variance
crow_indices: the positions at which rows begin, from 1, and one behind the last
data: the values
dataset: the dataset
decimals: the number of digits after the point
delimiter: the character between two fields
descending: whether the largest comes first
device: the device, such as "cpu" or "cuda:0"
device_type: the kind of device, such as "cuda"
diagonal: the diagonal's distance from the main one
dict: a state as `state_dict` returns it
dilation: the distance between elements of a window
dim: the dimension, counted from 1; negative ones count from the end
dim0: a dimension
dim1: a dimension
dims: the dimensions
downscale_factor: the divisor of each spatial size
dropout: the probability that an element becomes 0
dtype: the result's dtype
enabled: whether it has an effect
eps: a small number that keeps a denominator from being 0
equal_nan: whether NaN equals NaN
fill_value: the value of all elements
fn: the function
foreach: for programs written for PyTorch; all tensors are processed at once
generator: the torch.Generator that random numbers come from
given: the number of elements, or a list of elements
has_aux: whether the function returns a second value, which is handed on
has_biases: whether there are biases
help: the text that explains it
hermitian: whether the matrix is symmetric or Hermitian
high: the largest integer, exclusive
hx: the state before the first step
i: the number, from 1
ignore_index: the class that does not count
index: positions, counted from 1
indices: positions, counted from 1
inplace: whether the input is changed and returned
input: the input
input2: the second input
input_lengths: the lengths of the inputs
keepdim: whether a reduced dimension stays, with size 1
kernel_size: the window's size, one number for all dimensions or one for each
key: the key
left: whether the system is A X = B, not X A = B
lengths: the length of each sequence
mask: a tensor of booleans
mat1: a matrix
mat2: a matrix
mean: the mean
memory_format: the order of the elements in memory, such as "channels_last"
minlength: the least length of the result
module: the module
msg: the message
n: the number
name: the name
non_blocking: whether the host goes on before the copy is done
norm_type: the order p of the norm
num_classes: the number of classes
num_groups: the number of groups of channels
num_layers: the number of layers
num_samples: the number of draws
obj: a value without tensors
object: any value
offset: the diagonal's distance from the main one
options: further arguments by name
other: the second operand
out: gets the result
out_int32: whether positions are int32
padding: the number of elements added to both sides of each dimension
parameters: the parameters
params: the parameters
path: of the file
pivot: whether rows are exchanged
pivots: the exchanged rows
plain_indices: the column or row of each element, or of each block, from 1
precision: "highest", "high" or "medium"
process_group: the group of ranks; all ranks by default
queries: the values that are looked up
randomness: "error", "same" or "different": random numbers of the examples
rcond: singular values below rcond times the largest count as 0
reduction: "none", "mean" or "sum" of the losses
replacement: whether an element may be drawn again
requires_grad: whether autograd records operations on the result
return_counts: whether the number of occurrences of each value is returned, too
return_indices: whether positions are returned, too
return_inverse: whether the position of each element among the values is returned, too
right: whether the place after equal values is meant
root: the folder
row_indices: the rows of the elements, or of the blocks, from 1
rtol: the relative tolerance
scale_factor: the factor of each spatial size
self: the tensor
shape: the sizes
size: the sizes
sorted: whether the result is sorted
source: the tensor that values are taken from
split_sizes: the size of each piece
stable: whether equal values keep their order
state: a state as the function that returns it gives it
state_dict: a state as `state_dict` returns it
std: the standard deviation
step: the number of the step
storage_offset: the number of elements before the first one
stream_ptr: the address of a stream of CUDA
strict: whether a missing or an unexpected name is an error
stride: the step in each dimension
target_lengths: the lengths of the targets
tensor_name: the name of the parameter or buffer
tensors: a list of tensors
text: the text
timeout: the number of seconds to wait
title: the title
train: whether the function behaves as in training
training: whether the function behaves as in training
unbiased: whether the variance is divided by n - 1
upper: whether the upper triangle is meant
value: the value
values: the values
vec: the vector
vec2: a vector
w_hh: the weight of the state
w_ih: the weight of the input
width: the number of columns
world_size: the number of ranks
]],
   ["torch.nn."] = [[
_random_samples: the random numbers to use instead of new ones
acc_dtype: the dtype in which losses are summed
activation: "relu", "gelu" or a function
affine: whether there are a weight and a bias for each channel
allow_retain_graph: whether backward may run twice
allowed: whether the implementation may be chosen
amount: the part of the elements, from 0 to 1, or their number
anchor: the inputs
approximate: "none" for the exact function, or "tanh" for its approximation by tanh
backend: the implementation, an nn.attention.SDPBackend
bias: whether there is a bias
bidirectional: whether a second pass goes from the end to the beginning
blank: the class of no label
bn_eps: the eps of the batch norm
broadcast_buffers: whether rank 0's buffers are sent to all ranks before each forward pass
bucket_cap_mb: the size of a bucket of gradients in MB
chunking_method: "auto", "aspect_ratio" or "aspect_ratio:N"
constant_scalar: the constant
conv_w: the weight of the convolution
count_include_pad: whether padding counts in the divisor
d_model: the number of features of a token
default: the value of each key
delta: the difference at which the loss becomes linear
device: the parameters' device
dilation: the distance of elements in the window
dim_feedforward: the size between the two linear layers
distance_function: the distance of two inputs
divisor_override: replaces the window's size as divisor
dropout: the probability of dropout
dtype: the parameters' dtype
elementwise_affine: whether there are a weight and a bias for each element
embedding_dim: the size of a vector
error_if_nonfinite: whether a norm that is infinite or NaN is an error
from: the module whose parametrizations are copied
full: whether the constant part of the loss is added
gain: the factor of the result
groups: the number of groups of channels that are separate
head_bias: whether the head has a bias
hidden_size: the number of features of the hidden state
in1_features: the number of features of the first input
in2_features: the number of features of the second input
in_channels: the number of channels of the input
in_features: the number of features of the input
include_last_offset: whether the last offset is the end of the last bag
init: the value of the weight at the beginning
init_sync: whether rank 0's parameters and buffers are sent to all ranks at the beginning
input_size: the number of features of the input
intype: the dtype of the input
is_causal: whether a token sees only those before it
keys: the keys
label_smoothing: the probability that is shared among all classes
layer_norm_eps: the epsilon of the normalisations
log_input: whether the input is the logarithm of the rate
log_target: whether the target is a logarithm
logits: the unnormalised log probabilities
margin: the distance that is wanted
max_norm: the largest norm of a vector; longer ones are shortened
memory: the encoder's result
memory_is_causal: whether a token sees only the memory before it
memory_key_padding_mask: true where the memory is padding
memory_mask: a mask of the attention to the memory
mode: the algorithm, such as "nearest" or "bilinear"
modules: the modules
momentum: the part of a new batch in the running statistics; nil for their mean
n: the number of dimensions of an input without batch dimension
nInputDim: the number of dimensions of an input without batch dimension
nInputDims: the number of dimensions of an input without batch dimension
n_classes: the number of classes
n_power_iterations: the number of power iterations in a call
ndim: the number of dimensions of an input without batch dimension
negative: inputs of another class
nhead: the number of heads
nonlinearity: "tanh" or "relu"
norm_first: whether normalisation comes before each part
numInputDims: the number of dimensions of an input without batch dimension
num_channels: the number of channels
num_embeddings: the number of vectors
num_features: the number of channels
num_heads: the number of heads
orthogonal_map: "matrix_exp", "cayley" or "householder"
out_channels: the number of channels of the result
out_features: the number of features of the result
output_device: the device of the result
output_padding: the number of elements added to one side of the result
output_ratio: the result's sizes as parts of the input's
output_size: the spatial sizes of the result
outtype: the dtype of the result
p: the probability of an element to be zeroed
packed_sequences: the packed sequences
padded_sequences: the padded sequences
padding: the number of elements put on both sides of each dimension
padding_idx: the position whose vector is not trained
padding_mode: "zeros", "reflect", "replicate" or "circular"
persistent: whether the buffer is part of the state_dict
pos_weight: the weight of positive targets
positive: inputs of the same class
proj_size: the size of projected outputs; 0 for none
recompute_scale_factor: whether the scale is computed again from the sizes of input and result
running_mean: the running means
running_var: the running variances
scale_grad_by_freq: whether gradients are divided by the count of the position in the batch
scores: the importance of each element
seq_dim: the dimension of the sequence
sequence: the packed sequence
sorted_indices: the positions of the samples in order of length, longest first
sparse: whether the gradient of the weight is sparse
src: the source sequence
src_is_causal: whether a token of the source sees only those before it
src_key_padding_mask: true where the source is padding
src_mask: a mask of the source's attention
stride: the window's step; kernel_size for pools unless given
swap: whether the nearer of the two distances to the negative counts
target: the values that the input is compared with
tgt: the target sequence
tgt_is_causal: whether a token of the target sees only those before it
tgt_key_padding_mask: true where the target is padding
tgt_mask: a mask of the target's attention
track_running_stats: whether running statistics are kept for evaluation
unsafe: whether the results' shape and dtype are left unchecked
unsorted_indices: the positions that restore the samples' order
upscale_factor: the factor of each spatial size
use_input_stats: whether the statistics are those of the input
val: the value of all elements
weight: factors of the losses
zero_infinity: whether infinite losses become 0
]],
   ["torch.nn.functional."] = [[
bias: the bias, or none
dtype: the dtype of the result
weight: the weight
]],
   ["torch.nn.init."] = [[
nonlinearity: the activation after the layer, such as "relu" or "leaky_relu"
mode: "fan_in" or "fan_out"
tensor: the tensor to fill
]],
   ["torch.optim."] = [[
differentiable: only false, since a step is not recorded; for programs written for PyTorch
foreach: for programs written for PyTorch; all parameters are stepped at once
fused: for programs written for PyTorch; all parameters are stepped at once
adjust_lr_fn: how the rate is adjusted to a matrix's shape
amsgrad: whether the largest running mean so far divides
anneal_strategy: "cos" or "linear"
base_momentum: the least momentum
beta2_decay: the decay of the second factor
betas: the factors of the running means
capturable: whether a step can be part of a graph of the device
d: the largest root mean square of a step
decoupled_weight_decay: whether the decay is taken from the parameters
div_factor: max_lr / the first rate
eps: is added to a denominator
eta_min: the least rate
etas: the factors of a step size
final_div_factor: the first rate / the last rate
gamma: the factor of the rate
history_size: the number of kept steps
initial_accumulator_value: the first sums of squares
last_epoch: the number of steps already made; -1 at the beginning
lr: the learning rate
lr_decay: the decay of the rate
master_weights: whether float32 copies of narrower parameters are kept
max_eval: the most evaluations of a step
max_iter: the most iterations of a step
max_momentum: the largest momentum
maximize: whether steps go up
milestones: the steps at which the rate changes
min_lr: the least rate
mode: "min" or "max"
momentum: the factor of the last step
momentum_decay: the decay of momentum
nesterov: whether momentum is Nesterov's
ns_coefficients: the coefficients of the Newton-Schulz iteration
ns_steps: the number of Newton-Schulz iterations
optimizer: the optimizer whose rates are set
params: the parameters, or groups of them with options of their own
pct_start: the part of the steps in which the rate rises
rho: the factor of the running mean of squares
step_sizes: the smallest and the largest step
t0: the step at which averaging begins
tolerance_change: ends a step if the change is that small
tolerance_grad: ends a step if the gradient is that small
weight_decay: the factor with which parameters are added to gradients, or shrunk
kind: whether the hook runs before or after each step
max_norm: the largest norm of all gradients together
g: the number of the group of parameters
step_size_down: the number of steps in which the rate falls
]],
   ["torch.distributed."] = [[
async_op: whether a distributed.Work is returned at once
backend: "shm", "mpi" or "nccl"
broadcast_from_rank0: whether rank 0's state is sent to all
bucket: the gradients to be reduced
buffer_seq_dims: the dimension of the sequence in each buffer
buffers: the tensors that are split along the sequence
checkpoint_id: the folder
chunk: the number of the part of the batch
coordinate: this rank's position in each dimension of the mesh
device_mesh: the mesh of ranks
dsd_fqn_modifiers: only "_fqn_modifiers"; for programs written for PyTorch
file_name: the file of the store
flatten_optimizer_state_dict: only false; for programs written for PyTorch
full_state_dict: whether the state is whole on each rank
gather_list: gets each rank's tensor, on rank dst
global_rank: the rank's number in the whole world
group: the group of ranks; all by default
group_name: for programs written for PyTorch; the name of the group
group_rank: the rank's number in the group
groups: the group of ranks of each dimension of the mesh
host_name: the host of the store
ignore_frozen_params: whether parameters without gradients are left out
input_list: the tensors to be sent
input_split_sizes: the number of rows for each rank
input_tensor: the tensor of this rank
input_tensor_list: the tensors to be sent
is_causal: whether a token sees only those before it
keep_submodule_prefixes: only true; for programs written for PyTorch
local_tensor: this rank's shard of the tensor
loss: the function that computes the loss
mesh: the mesh of ranks
mesh_dim: the dimension of the mesh
mesh_dim_names: the names of the mesh's dimensions
method_name: the name of the method
min_compression_rate: the least factor by which a gradient must become smaller to be compressed
model: the model
model_state_dict: a state of the model
n_microbatches: the number of parts of a batch
num_stages: the number of stages
object_list: the values
op: how values are reduced, such as "sum" or ReduceOp.MAX
optim_state_dict: a state of optimizers
optimizers: the optimizer, or a list of them
output: gets the result
output_split_sizes: the number of rows from each rank
output_tensor: gets the result
output_tensor_list: gets the results
output_tensor_lists: get the result of each tensor
p2p_op_list: the messages
parent_pg: the group that is split
process_group: the group of ranks; all by default
random_seed: the seed of the first random matrices
ranks_per_subgroup_list: the ranks of each group
scale_grads: whether gradients are divided by the number of parts
scatter_list: the tensor for each rank, on rank src
scatter_object_output_list: gets the value in its first element
seq_dims: the dimension of the sequence in each tensor
split_ranks: the ranks of each group
src: the rank that sends
stage_index: the stage's number, from 0
submodule: the stage's part of the model
tag: distinguishes messages between the same ranks
tensor: the tensor that is sent, or that gets the result
tensor_list: gets the tensor of each rank
use_error_feedback: whether the compression's error is added to the next gradient
use_local_output: whether results are plain tensors
values: the value of each key
warm_start: whether the compression starts from the last step's matrices
]],
   ["torch.data."] = [[
buffer_size: the number of items that may wait
conversion: is called with each list of items, or maps columns to functions
datapipe: the pipe that is read
datasets: the datasets, one after another
generator: the torch.Generator of the random order
iterable: the values, or a function that returns an iterator
num_of_instances: the number of workers
rng: the torch.Generator of the seeds
sampler_args: further arguments of the sampler
sampler_kwargs: further arguments of the sampler by name
sequence: the list
source_datapipe: the pipe that is read
value: the value, or a table of values
weights: the weight of each position; they need not sum to 1
what: the function or class that is called
wrapper_class: is called with each batch
]],
   ["torch.autograd."] = [[
...: the tensors
check_undefined_grad: whether backward is tried without some gradients
masked: true or nil: only stored elements of sparse inputs are checked
eps: the step of the differences
error_message: the error of an operator that saves a tensor
grad_tensors: the gradient of each tensor
inputs: the tensors whose gradients are wanted
raise_exception: whether a difference is an error
]],
   ["torch.optim.ASGD"] = [[
alpha: the power of the step's number in the decay of the rate
]],
   ["torch.optim.RMSprop"] = [[
alpha: the factor of the running mean of squares
]],
   ["torch.nn.SmoothL1Loss"] = [[
beta: the difference at which the loss becomes linear
]],
   ["torch.nn.TripletMarginLoss"] = [[
p: the order of the norm
]],
   ["torch.nn.MultiMarginLoss"] = [[
p: the exponent of the differences, 1 or 2
]],
   ["torch.nn.functional.grid_sample"] = [[
mode: "bilinear", "nearest" or "bicubic"
padding_mode: "zeros", "border" or "reflection"
]],
   ["torch.signal.windows."] = [[
sym: true unless given: the last element equals the first; false: the element after it would
]],
   ["torch.fft."] = [[
norm: "backward" (unless given), "ortho" or "forward": which results are divided
s: the sizes to which the transformed dimensions are cut or padded with zeros
]],
   ["torch.linalg."] = [[
LD: the factors, as ldl_factor returns them
LU: the factors, as lu_factor returns them
UPLO: "L" or "U": the triangle that is read
ord: the order of the norm
]],
   ["torch.nn.MultiheadAttention"] = [[
key: the tokens that the queries are compared with
query: the tokens that ask
value: the tokens that are averaged
]],
   ["torch.fill"] = [[
value: of all elements
]],
   ["torch.Tensor.masked_fill"] = [[
value: of the elements where the mask is true
]],
   ["torch.nn.functional.embedding_bag"] = [[
mode: "sum", "mean" or "max" of the vectors of a bag
]],
   ["torch.nn.functional.interpolate"] = [[
mode: "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear" or "area"
]],
   ["torch.nn.functional.upsample"] = [[
mode: "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear" or "area"
]],
   ["torch.nn.UpsamplingBilinear2d"] = [[
mode: only "bilinear"
]],
   ["torch.nn.UpsamplingNearest2d"] = [[
mode: only "nearest"
]],
   ["torch.utils.benchmark."] = [[
description: the text of the column
env: the text that names the environment
label: the title of the table
min_run_time: the least number of seconds of all runs
number: the number of calls in each measurement
raw: the times of the measurements, in seconds
results: the measurements
rowwise: false turns the colours off
sub_label: the text of the row
task: the description of the measured code
]],
   ["torch.utils."] = [[
average: "macro", "micro", "weighted" or "none": how the values of classes are combined
default: the value if the option is not given
description: the text that explains the program
interval: the number of seconds between two outputs
log_x: whether the horizontal axis is logarithmic
log_y: whether the vertical axis is logarithmic
names: the names
note: the text after the bar
save: the path of an SVG or PNG file
tensor: the picture
top_k: the number of classes among which the label may be
what: the number of steps, or a list, loader or iterator to go through
]],
   ["torch.GradScaler"] = [[
backoff_factor: the factor of the scale after an infinite or NaN gradient
growth_factor: the factor of the scale after enough good steps
growth_interval: the number of good steps until the scale grows
outputs: the loss, or a table of losses
value: the new value
]],
   ["torch.library."] = [[
backward: computes the gradients of the inputs from those of the outputs
device_types: the kinds of devices, such as "cpu"
op: the operator, or its name
options: may have setup_context, which saves values for backward
]],
   ["torch.profiler."] = [[
options: how events are grouped or rows are sorted
]],
   ["torch.export."] = [[
path: the path of the file
]],
   ["torch.special."] = [[
a: the argument
n: the order of the derivative
p: the dimension
]],
   ["torch.promote_types"] = [[
a: the first dtype
b: the second dtype
]],
   ["torch.result_type"] = [[
a: the first operand
b: the second operand
]],
   ["torch.polar"] = [[
abs: the absolute values
angle: the angles in radians
]],
   ["torch.complex"] = [[
imag: the imaginary parts
]],
   ["torch.isin"] = [[
assume_unique: whether both tensors have no equal elements, which is faster
elements: the elements that are looked for
]],
   ["torch.frombuffer"] = [[
buffer: the bytes
]],
   ["torch.Tensor.float_power_"] = [[
exponent: the exponents
]],
   ["torch.Tensor.cauchy_"] = [[
median: the median of the distribution
sigma: half the distance between the quartiles
]],
   ["torch.raise"] = [[
message: the message, or any other error value
]],
   ["torch.multiprocessing."] = [[
daemon: for programs written for PyTorch; ranks always end with the program
method: only "spawn"
start_method: only "spawn"
]],
   ["torch.matrix_power"] = [[
n: the exponent
]],
   ["torch.set_deterministic_debug_mode"] = [[
mode: the reaction to an operator whose result may vary
]],
   ["torch.set_flush_denormal"] = [[
mode: whether tiny numbers become 0
]],
   ["torch.use_deterministic_algorithms"] = [[
mode: whether only reproducible algorithms are used
]],
   ["torch.record_memory_history"] = [[
on: whether allocations are recorded from now on
]],
   ["torch.einsum"] = [[
operands: the tensors
]],
   ["torch.cuda.get_device_index"] = [[
optional: whether nil stands for the current device
]],
   ["torch.cuda.can_device_access_peer"] = [[
peer: the other device
]],
   ["torch.sim.get_device_index"] = [[
optional: whether nil stands for the current device
]],
   ["torch.cuda.nvtx.range_end"] = [[
range_id: the number that range_start returned
]],
   ["torch.sim.configure"] = [[
settings: the seed of the delays, the bytes of memory, and the number of the request that fails
]],
   ["torch.vmap"] = [[
out_dims: the dimension of the examples in each result
]],
   ["torch.testing."] = [[
check_device: whether both values must be on the same device
check_dtype: whether both values must have the same dtype
check_stride: whether both values must have the same strides
]],
   ["torch.alpha_dropout"] = [[
p: the probability of an element to be zeroed
]],
   ["torch.feature_alpha_dropout"] = [[
p: the probability of an element to be zeroed
]],
   ["torch.triplet_margin_loss"] = [[
p: the order of the norm
]],
   ["torch.func."] = [[
root: the module
]],
   ["torch.io."] = [[
kind: the format of the bytes
]],
   ["torch.roll"] = [[
shifts: the number of positions by which elements move, in each dimension
]],
   ["torch.searchsorted"] = [[
sorter: positions that sort the sequence
]],
   ["torch.help"] = [[
subject: a name, or any value of the library
]],
   ["torch.resize_as_"] = [[
the_template: the tensor whose sizes are taken
]],
   ["torch.triangular_solve"] = [[
unitriangular: whether the diagonal is taken to be 1
]],
   ["torch.lu_unpack"] = [[
unpack_data: whether the factors are returned
unpack_pivots: whether the permutation is returned
]],
   ["torch.index_fill"] = [[
value: the value of the elements at these positions
]],
   ["torch.UntypedStorage"] = [[
value: the value of all bytes
]],
   ["torch.utils.leaks"] = [[
steps: the number of calls that are compared
]],
   ["torch.distributed.tensor.Partial"] = [[
reduce_op: only "sum"
]],
   ["torch.distributions."] = [[
cache_size: 1 keeps the last result, so that its inverse is exact; 0 keeps none
compute: returns the divergence of two distributions
logits: the unnormalised log probabilities
probs: the probabilities
scale: the scale
temperature: the temperature; samples are nearly discrete if it is small
validate_args: whether arguments and values are checked
]],
   ["torch.set_num_interop_threads"] = [[
num_threads: the number of threads; has no effect
]],
}

-- Maps prefixes of paths to packages. The module `vocabulary` of a package has the meanings of
-- parameters that only this package has.
local packaged <const> = {
   ["torch.audio."] = "audio",
   ["torch.utils.mlflow."] = "mlflow", ["torch.rl."] = "rl", ["torch.text."] = "text",
   ["torch.utils.tensorboard."] = "tensorboard", ["torch.trainer."] = "trainer",
   ["torch.graphs."] = "graphs", ["torch.notebook."] = "notebook", ["torch.serve."] = "serve",
   ["torch.llm."] = "llm",
   ["torch.utils.plot."] = "plot",
   ["torch.hub."] = "hub", ["torch.utils.wandb."] = "wandb",
}

local keys <const> = {}
for key in pairs(groups) do keys[#keys + 1] = key end
for key in pairs(packaged) do keys[#keys + 1] = key end
table.sort(keys, function(a, b) return #a > #b end)

-- Returns the texts of a group, as a table from parameter names to texts. The texts are parsed when
-- they are first needed.
local function words_of(key)
   local group = groups[key]
   if group == nil then
      local module = ("tlua.%s.vocabulary"):format(packaged[key])
      group = packages.has(module) and require(module) or ""
   end
   if type(group) == "string" then
      local words = {}
      for name, text in group:gmatch "([^\n:]+): ([^\n]+)" do words[name] = text end
      groups[key], group = words, words
   end
   return group
end

--- Returns the text on a parameter; "" if the parameter's name has no common meaning.
---@param path string  the path of the function or class, such as "torch.nn.Linear"
---@param name string
---@return string
function M.words(path, name)
   if not path:find "^torch%." then path = "torch." .. path end
   for _, key in ipairs(keys) do
      local words = path:sub(1, #key) == key and words_of(key)[name]
      if words then return words end
   end
   return ""
end

return M
