-- policies.lua - the options for fully_shard's dtypes and for the memory of its shards.

local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

local take = args.signature [[fsdp.MixedPrecisionPolicy(param_dtype: string?,
   reduce_dtype: string?, output_dtype: string?, cast_forward_inputs: boolean = true)]]

local floating <const> = {float32 = true, float64 = true, float16 = true, bfloat16 = true}

--- The dtypes in which a sharded module computes. Parameters are gathered as param_dtype, and
--- floating-point arguments of forward are cast to it too (unless cast_forward_inputs is false).
--- Gradients are averaged in reduce_dtype, which is param_dtype by default. Results are cast to
--- output_dtype. Shards, and the values that optimizers change, keep the parameters' own dtype.
---
---     local fsdp = torch.distributed.fsdp
---     local policy = fsdp.MixedPrecisionPolicy {param_dtype = "bfloat16"}
---     print(policy.param_dtype, policy.cast_forward_inputs)
---     --> bfloat16	true
---@class distributed.fsdp.MixedPrecisionPolicy
---@overload fun(options?: table): distributed.fsdp.MixedPrecisionPolicy
M.MixedPrecisionPolicy = class.class("distributed.fsdp.MixedPrecisionPolicy")

function M.MixedPrecisionPolicy:__init(...)
   local a = take(...)
   for _, name in ipairs {"param_dtype", "reduce_dtype", "output_dtype"} do
      if a[name] and not floating[a[name]] then
         args.refuse("fsdp.MixedPrecisionPolicy", name, "a floating dtype", a[name])
      end
      self[name] = a[name]
   end
   self.cast_forward_inputs = a.cast_forward_inputs
end

--- Keeps shards, their gradients, and thereby the optimizer's state in the CPU's memory. Gathered
--- parameters are on the device where the parameters were.
---
---     local fsdp = torch.distributed.fsdp
---     local policy = fsdp.CPUOffloadPolicy()
---     print(torch.isinstance(policy, fsdp.CPUOffloadPolicy))
---     --> true
---@class distributed.fsdp.CPUOffloadPolicy
---@overload fun(): distributed.fsdp.CPUOffloadPolicy
M.CPUOffloadPolicy = class.class("distributed.fsdp.CPUOffloadPolicy")

--- Raises an error unless the policies among the arguments are instances of the right classes.
function M.check(title, a)
   if a.mp_policy and not class.isinstance(a.mp_policy, M.MixedPrecisionPolicy) then
      args.refuse(title, "mp_policy", "a MixedPrecisionPolicy", a.mp_policy)
   end
   if a.offload_policy and not class.isinstance(a.offload_policy, M.CPUOffloadPolicy) then
      args.refuse(title, "offload_policy", "a CPUOffloadPolicy", a.offload_policy)
   end
end

return M
