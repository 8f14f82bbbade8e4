-- ddp_comm_hooks.lua - other ways to average the buckets of DistributedDataParallel. Each hook is
-- registered with model:register_comm_hook(state, hook); if `state` is nil, the hook uses the
-- world's group.

local torch = require "tlua"
local args = require "tlua.args"
local groups = require "tlua.distributed.group"

--- Hooks of DistributedDataParallel that average gradients in different ways.
---@names distributed.algorithms.ddp_comm_hooks.default_hooks
---@names distributed.algorithms.ddp_comm_hooks.powerSGD_hook
---@names distributed.algorithms.ddp_comm_hooks.post_localSGD_hook
local M = {default_hooks = {}, powerSGD_hook = {}, post_localSGD_hook = {}}

local function start(group, tensor, op)
   group = groups.resolve("register_comm_hook", group)
   return group:run("all_reduce", {outputs = tensor, op = op or "avg", async_op = true})
end

local function check_bucket(name, bucket)
   if type(bucket) ~= "table" or not bucket.buffer then
      args.refuse(name, "bucket", "a bucket, as DistributedDataParallel gives it", bucket)
   end
end

local function check_state(name, state, has)
   if type(state) ~= "table" or state[has] == nil then
      args.refuse(name, "state", "the hook's state", state)
   end
end

--- Averages gradients in their own dtype, as DistributedDataParallel does without a hook.
---@param group? distributed.ProcessGroup
---@param bucket table  the bucket that DistributedDataParallel passes
function M.default_hooks.allreduce_hook(group, bucket)
   check_bucket("allreduce_hook", bucket)
   return start(group, bucket:buffer())
end

-- Makes a hook that averages gradients in a narrower dtype, so that half as many bytes are sent.
local function compress(name, dtype)
   return function(group, bucket)
      check_bucket(name, bucket)
      local narrow = bucket:buffer():to(dtype)
      local work = start(group, narrow)
      return {wait = function()
         work:wait()
         bucket:buffer():copy_(narrow)
      end}
   end
end

--- Averages gradients in float16, so that float32 gradients are sent in half as many bytes. Pass
--- this hook to register_comm_hook.
---@names distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook
---@param group? distributed.ProcessGroup
---@param bucket distributed.GradBucket
---@return distributed.Work
M.default_hooks.fp16_compress_hook = compress("fp16_compress_hook", "float16")
--- Averages gradients in bfloat16, so that float32 gradients are sent in half as many bytes. Pass
--- this hook to register_comm_hook.
---@names distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook
---@param group? distributed.ProcessGroup
---@param bucket distributed.GradBucket
---@return distributed.Work
M.default_hooks.bf16_compress_hook = compress("bf16_compress_hook", "bfloat16")

-- Returns a bucket with the same gradients in a narrower dtype.
local function narrowed(bucket, dtype)
   local flat, views, at = bucket:buffer():to(dtype), {}, 1
   for k, view in ipairs(bucket:gradients()) do
      views[k] = flat:narrow(1, at, view:numel()):view(view.shape)
      at = at + view:numel()
   end
   return setmetatable({flat = flat, views = views}, {__index = bucket})
end

-- Makes a wrapper that runs another hook on gradients of a narrower dtype.
local function wrapper(name, dtype)
   return function(hook)
      if type(hook) ~= "function" then args.refuse(name, "hook", "a function", hook) end
      return function(state, bucket)
         local narrow = narrowed(bucket, dtype)
         local work = hook(state, narrow)
         return {wait = function()
            local result = work:wait()
            bucket:buffer():copy_(torch.is_tensor(result) and result or narrow.flat)
         end}
      end
   end
end

--- Returns a hook that runs `hook` on the gradients in float16.
---@names distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_wrapper
---@param hook function  such as default_hooks.allreduce_hook
---@return function hook
M.default_hooks.fp16_compress_wrapper = wrapper("fp16_compress_wrapper", "float16")
--- Returns a hook that runs `hook` on the gradients in bfloat16.
---@names distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_wrapper
---@param hook function  such as default_hooks.allreduce_hook
---@return function hook
M.default_hooks.bf16_compress_wrapper = wrapper("bf16_compress_wrapper", "bfloat16")

-- Post-local SGD -----------------------------------------------------------------------------

---     local dist = torch.distributed
---     local hook = dist.algorithms.ddp_comm_hooks.post_localSGD_hook
---     local state = hook.PostLocalSGDState {start_localSGD_iter = 100}
---     print(state.start_localSGD_iter, state.post_local_gradient_allreduce)
---     --> 100	true
---@class distributed.PostLocalSGDState
---@overload fun(options?: table): distributed.PostLocalSGDState
local Local = torch.class("distributed.PostLocalSGDState")
M.post_localSGD_hook.PostLocalSGDState = Local

local take_local = args.signature [[PostLocalSGDState(process_group: object?, subgroup: object?,
   start_localSGD_iter: count = 1000, post_local_gradient_allreduce: boolean = true)]]

--- Makes a state. From pass start_localSGD_iter on, gradients are averaged over `subgroup` only, or
--- not at all if there is no subgroup or post_local_gradient_allreduce is false.
function Local:__init(...)
   for key, value in pairs(take_local(...)) do self[key] = value end
   self.iter = 0
end

local nothing = {wait = function() end}

--- Averages gradients over all ranks at first, and later over a subgroup or not at all. From then
--- on the program averages the parameters from time to time, with
--- algorithms.model_averaging.averagers.
---@param state table  a PostLocalSGDState
---@param bucket table  the bucket that DistributedDataParallel passes
function M.post_localSGD_hook.post_localSGD_hook(state, bucket)
   check_state("post_localSGD_hook", state, "start_localSGD_iter")
   check_bucket("post_localSGD_hook", bucket)
   local now = state.iter
   if bucket:is_last() then state.iter = now + 1 end
   if now < state.start_localSGD_iter then return start(state.process_group, bucket:buffer()) end
   if not state.post_local_gradient_allreduce or not state.subgroup then return nothing end
   return start(state.subgroup, bucket:buffer())
end

-- PowerSGD (Vogels, Karimireddy, Jaggi 2019, algorithms 1 and 2) -------------------------------

--- The state of powerSGD_hook: the rank of the low-rank approximation (matrix_approximation_rank),
--- the first step with approximation (start_powerSGD_iter), and the errors and factors that are
--- kept between steps.
---
---     local dist = torch.distributed
---     local hook = dist.algorithms.ddp_comm_hooks.powerSGD_hook
---     local state = hook.PowerSGDState {matrix_approximation_rank = 2}
---     print(state.matrix_approximation_rank, state.start_powerSGD_iter)
---     --> 2	1000
---@class distributed.PowerSGDState
---@overload fun(options?: table): distributed.PowerSGDState
local State = torch.class("distributed.PowerSGDState")
M.powerSGD_hook.PowerSGDState = State

local take = args.signature [[PowerSGDState(process_group: object?,
   matrix_approximation_rank: count = 1, start_powerSGD_iter: count = 1000,
   use_error_feedback: boolean = true, warm_start: boolean = true,
   min_compression_rate: number = 2, random_seed: integer = 0)]]

function State:__init(...)
   for key, value in pairs(take(...)) do self[key] = value end
   self.steps, self.errors, self.factors = 0, {}, {}
   self.generator = torch.Generator("cpu")
   self.generator:manual_seed(self.random_seed)
end

-- Orthonormalizes the columns of a matrix in place (Gram-Schmidt).
local function orthogonalize(matrix)
   for k = 1, matrix:size(2) do
      local column = matrix:select(2, k)
      for j = 1, k - 1 do
         local before = matrix:select(2, j)
         column:sub_(before * (before * column):sum())
      end
      column:div_(column:norm() + 1e-8)
   end
end

-- Returns two lists: the gradients of a bucket that PowerSGD approximates, because that sends fewer
-- elements by the factor min_compression_rate, and all other gradients.
local function sort_out(state, bucket)
   local matrices, rest = {}, {}
   for k, view in ipairs(bucket:gradients()) do
      local rows = view:dim() > 0 and view:size(1) or 1
      local columns = rows > 0 and view:numel() // rows or 0
      local rank = math.min(rows, columns, state.matrix_approximation_rank)
      local worth = view:dim() > 1 and
         (rows + columns) * rank * state.min_compression_rate < view:numel()
      if worth then
         matrices[#matrices + 1] = {matrix = view:view(rows, columns), rank = rank, key = k}
      else
         rest[#rest + 1] = view
      end
   end
   return matrices, rest
end

local function average(state, tensors)
   if #tensors == 0 then return end
   local coalesce = require "tlua.distributed.coalesce"
   coalesce.each(tensors, function(flat) start(state.process_group, flat):wait() end)
end

--- Averages matrices by low-rank approximations. The approximation error is added to the next
--- step's gradient. The first start_powerSGD_iter steps average the gradients exactly.
---@param state distributed.PowerSGDState
---@param bucket distributed.GradBucket
function M.powerSGD_hook.powerSGD_hook(state, bucket)
   check_state("powerSGD_hook", state, "start_powerSGD_iter")
   check_bucket("powerSGD_hook", bucket)
   if bucket:is_last() then state.steps = state.steps + 1 end
   if state.steps - (bucket:is_last() and 1 or 0) < state.start_powerSGD_iter then
      return start(state.process_group, bucket:buffer())
   end
   local number = bucket:index()
   local errors = state.errors[number]
   if state.use_error_feedback then
      if errors and errors:numel() == bucket:buffer():numel() then bucket:buffer():add_(errors) end
      errors = bucket:buffer():clone()
      state.errors[number] = errors
   end
   local matrices, rest = sort_out(state, bucket)
   average(state, rest)
   local ps, qs = {}, {}
   for i, m in ipairs(matrices) do
      local key = number * 100000 + m.key
      local q = state.warm_start and state.factors[key]
      if not q then
         q = torch.randn({m.matrix:size(2), m.rank}, {generator = state.generator, device = "cpu"})
         q = q:to(m.matrix.device):to(m.matrix.dtype)
         state.factors[key] = q
      end
      orthogonalize(q)
      qs[i], ps[i] = q, m.matrix:matmul(q)
   end
   average(state, ps)
   for i, m in ipairs(matrices) do
      orthogonalize(ps[i])
      qs[i]:copy_(m.matrix:t():matmul(ps[i]))
   end
   average(state, qs)
   for i, m in ipairs(matrices) do m.matrix:copy_(ps[i]:matmul(qs[i]:t())) end
   if state.use_error_feedback then errors:sub_(bucket:buffer()) end
   return {wait = function() end}
end

return M
