-- plan.lua - estimates the memory and time of training a GPT on many devices, for every layout, by
-- formulas. No model is run.
--
-- Sources, by the names used below:
--   [M]  "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM"
--        (Narayanan et al., 2021): operations (appendix), parameters (equation 2), pipelines'
--        bubbles (section 2.2), exchanges of tensor parallelism (section 3.2)
--   [K]  "Reducing Activation Recomputation in Large Transformer Models" (Korthikanti et al.,
--        2022): bytes of activations (table 2, equation 5)
--   [Z]  "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (Rajbhandari
--        et al., 2020): bytes of parameters, gradients and state (section 3.1, figure 1)
--   [T]  "Optimization of Collective Communication Operations in MPICH" (Thakur et al., 2005):
--        rings
--   [N]  "Massively Scale Your Deep Learning Training with NCCL 2.4" (Jeaugey, 2019): trees
--   [R]  "Ring Attention" (Liu et al., 2023): keys and values that go round

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

-- The figures of an A100 with 80 GB in nodes of eight devices. NVIDIA's data sheet gives its
-- bfloat16 FLOPs per second, and the bytes per second of its memory, of NVLink in each direction,
-- and of its 200 Gb/s network adapter. The efficiency of large kernels and the latency of a message
-- are from measurements in [M].
local hardware <const> = {
   devices = 8, per_node = 8, memory = 80e9, flops = 312e12, matmul_efficiency = 0.65,
   memory_bandwidth = 1.5e12, node_bandwidth = 230e9, network_bandwidth = 22e9, latency = 10e-6,
}

local model_fields <const> = {"layers", "width", "heads", "vocab", "sequence", "batch"}
local other_options <const> = {
   top = true, checkpointing = true, sequence_parallel = true, flash = true, max_context = true,
   -- These three fields of the model become options of `plan` if the model is a module.
   batch = true, sequence = true, heads = true,
}

-- Model -------------------------------------------------------------------------------------------

-- Returns the number of parameters: by a formula for a GPT [M, equation 2], and by counting for a
-- module.
local function count_parameters(m)
   if m.parameters then return m.parameters + 0.0 end
   local l, h = m.layers + 0.0, m.width
   return 12 * l * h * h * (1 + 13 / (12 * h) + (m.vocab + m.sequence) / (12 * l * h))
end

--- Returns the number of FLOPs of a step [M, appendix]: 96 B s l h^2 (1 + s / 6h + V / 16lh) with
--- checkpointing, for batch size B, sequence length s, l layers of width h and vocabulary size V.
--- `again` tells whether activations are recomputed, which takes a quarter of a layer's FLOPs.
local function count_operations(m, again)
   -- floats are used, because an integer would overflow
   local l, h, s = m.layers + 0.0, m.width, m.sequence
   local layers = 24 * l * m.batch * s * h * h * (1 + s / (6 * h))
   return (again and 4 or 3) * layers + 6 * m.batch * s * h * m.vocab
end

-- Exchanges: seconds ------------------------------------------------------------------------------

-- Returns the time of an all_reduce by the faster of two algorithms, a ring or a tree. [T] and [N]
-- are sources in the list above.
local function all_reduce(n, bytes, bandwidth, latency)
   if n == 1 then return 0 end
   local ring = 2 * (n - 1) * latency + 2 * (n - 1) / n * bytes / bandwidth
   local tree = 2 * math.log(n, 2) * latency + 2 * bytes / bandwidth
   return math.min(ring, tree)
end

-- Returns the time of an all_gather or a reduce_scatter, by the formula of [T] (see the list of
-- sources above).
local function all_gather(n, bytes, bandwidth, latency)
   if n == 1 then return 0 end
   return (n - 1) * latency + (n - 1) / n * bytes / bandwidth
end

-- One layout --------------------------------------------------------------------------------------

-- Returns the size in bytes of a layer's activations for one microbatch [K, table 2]. The L x L
-- attention weights are left out if the kernel does not store them.
local function activations(m, x, o)
   local sbh = m.sequence / x.context * x.micro * m.width
   local scores = o.flash and 0 or 5 * m.heads * m.sequence / m.width
   if o.sequence_parallel then return sbh * (34 + scores) / x.tensor end
   return sbh * (10 + 24 / x.tensor + scores / x.tensor)
end

-- Returns the memory in bytes that a device in the first stage needs. This stage needs the most.
local function memory_of(m, x, o)
   local share = count_parameters(m) / (x.tensor * x.pipeline)
   local ranks = x.data * x.context
   local weights, grads, state = 2 * share, 2 * share, 12 * share -- [Z]
   if x.zero >= 1 then state = state / ranks end
   if x.zero >= 2 then grads = grads / ranks end
   if x.zero >= 3 then weights = weights / ranks end
   local layer = activations(m, x, o)
   local kept = layer
   if x.checkpointing then -- [K, section 5]: only a layer's input is kept for the backward pass
      kept = 2 * m.sequence / x.context * x.micro * m.width
      if o.sequence_parallel then kept = kept / x.tensor end
   end
   local parts = math.min(x.pipeline, x.parts) -- the microbatches that the first stage holds
   local more = x.interleave > 1 and 1 + (x.pipeline - 1) / (x.pipeline * x.interleave) or 1
   local held = kept * m.layers / x.pipeline * parts * more + (x.checkpointing and layer or 0)
   local logits = 4 * m.sequence / x.context * x.micro * m.vocab / x.tensor
   return weights + grads + state + held + (x.pipeline == 1 and logits or 0)
end

local function bandwidth_of(ranks, o)
   return ranks <= o.per_node and o.node_bandwidth or o.network_bandwidth
end

-- Returns the seconds that a step takes.
local function time_of(m, x, o)
   local again = x.checkpointing and 1 or 0
   -- the number of sequences in a microbatch, which equals x.micro
   local per_part = m.batch / (x.data * x.parts)
   -- the FLOPs of the matrix products for one microbatch on one stage
   local operations = count_operations(m, x.checkpointing) * per_part / m.batch
   local products = operations / (x.tensor * x.pipeline * x.context)
      / (o.flops * o.matmul_efficiency)
   -- Memory-bound work: the forward pass, the backward pass and the recomputation of activations
   -- each write and read all activations.
   local layers = m.layers / x.pipeline
   local traffic = 2 * activations(m, x, o) * (2 + again) * layers / o.memory_bandwidth
   -- tensor parallelism needs two all_reduces forward and two backward [M, section 3.2]
   local bytes = 2 * m.sequence / x.context * x.micro * m.width
   local sums = (4 + 2 * again) * layers
      * all_reduce(x.tensor, bytes, bandwidth_of(x.tensor, o), o.latency)
   -- context parallelism [R] passes keys and values through all ranks, in the forward pass, in its
   -- recomputation and, together with their gradients, in the backward pass
   local ring = 0
   if x.context > 1 then
      local link = bandwidth_of(x.tensor * x.context, o)
      ring = (3 + again) * layers * (x.context - 1) * (o.latency + 2 * bytes / x.tensor / link)
   end
   -- Pipeline parallelism: each rank of a tensor parallel group sends its share of the activations
   -- to the next stage, and its share of the gradients to the previous stage.
   local hops = 0
   if x.pipeline > 1 then
      local link = bandwidth_of(x.tensor * x.context * x.data * 2, o)
      hops = 2 * x.interleave * (o.latency + bytes / x.tensor / link)
   end
   local part = products + traffic + sums + ring + hops
   local rounds = x.parts + (x.pipeline - 1) / x.interleave -- [M, section 2.2]
   -- data parallelism sums gradients; stage 3 of [Z] also gathers parameters twice
   local share = 2 * count_parameters(m) / (x.tensor * x.pipeline)
   local ranks = x.data * x.context
   local link = bandwidth_of(ranks * x.tensor, o)
   local exchange = all_reduce(ranks, share, link, o.latency)
   if x.zero == 3 then exchange = 3 * all_gather(ranks, share, link, o.latency) end
   -- the optimizer reads and writes the state of each parameter
   local stepped = 2 * 16 * share / 2 / (x.zero >= 1 and ranks or 1) / o.memory_bandwidth
   return rounds * part + exchange + stepped, rounds
end

-- Describes a module that resembles a GPT as a table like the argument `model` of plan. The
-- vocabulary and the width are the sizes of its largest embedding. The layers are the items of its
-- longest list of modules of one class, and the number of heads is the field num_heads or heads of
-- a submodule.
local function describe_module(module, o)
   local m = {batch = o.batch, sequence = o.sequence, heads = o.heads, layers = 0, parameters = 0}
   local nn = torch.nn
   for _, parameter in ipairs(module:parameters()) do
      m.parameters = m.parameters + parameter:numel()
   end
   for _, part in ipairs(module:modules()) do
      if class.isinstance(part, nn.Embedding) then
         local rows, width = part.weight:size(1), part.weight:size(2)
         if rows > (m.vocab or 0) then m.vocab, m.width = rows, width end
      end
      m.heads = m.heads or math.tointeger(rawget(part, "num_heads") or rawget(part, "heads"))
      local alike, first = 0, nil
      for _, child in part:named_children() do
         first = first or getmetatable(child)
         if getmetatable(child) == first then alike = alike + 1 end
      end
      m.layers = math.max(m.layers, alike)
   end
   local what = not m.vocab and "nn.Embedding, for vocab and width"
      or m.layers == 0 and "list of modules, for layers"
   if what then
      torch.raise(("plan: model: expected a table of %s or a module like a GPT, got %s, which " ..
         "has no %s"):format(table.concat(model_fields, ", "), torch.type(module), what))
   end
   for _, name in ipairs {"heads", "sequence", "batch"} do
      if m[name] == nil then
         torch.raise(("plan: options: %s is missing: expected an integer, which %s does not tell")
            :format(name, torch.type(module)))
      end
   end
   return m
end

local function check_model(who, m)
   local known = {parameters = true}
   if type(m) ~= "table" or getmetatable(m) then args.refuse(who, "model", "a table", m) end
   for _, name in ipairs(model_fields) do
      known[name] = true
      if math.type(m[name]) ~= "integer" or m[name] < 1 then
         args.refuse(who, "model." .. name, "an integer of at least 1", m[name])
      end
   end
   for name in pairs(m) do
      if not known[name] then
         torch.raise(("%s: model: unknown field %s"):format(who, tostring(name)))
      end
   end
end

local function options_of(given)
   local o = {top = 10, sequence_parallel = true, flash = true, max_context = 1}
   for name, value in pairs(hardware) do o[name] = value end
   for name, value in pairs(given or {}) do
      if hardware[name] == nil and not other_options[name] then
         args.unknown_option("plan", name, hardware, other_options)
      end
      if type(value) ~= "boolean" and (type(value) ~= "number" or value <= 0) then
         args.refuse("plan", name, "a number above 0", value)
      end
      o[name] = value
   end
   return o
end

local function evaluate(m, layout, o)
   local x = {}
   for name, value in pairs(layout) do x[name] = value end
   x.parts = m.batch // (x.data * x.micro)
   x.bytes = memory_of(m, x, o)
   x.seconds = time_of(m, x, o)
   -- the count includes the FLOPs of recomputation, as the figures in [M] do
   x.flops = count_operations(m, x.checkpointing) / x.seconds / o.devices
   x.fits = x.bytes <= o.memory
   x.parameters = count_parameters(m)
   return x
end

--- Returns the memory and time of one layout: {data, tensor, pipeline, context, micro (sequences in
--- a microbatch), interleave (stages on each device), zero (0 to 3), checkpointing}; see plan. The
--- result adds `bytes` (memory on a device), `seconds` (for a step), `flops` (of a device per
--- second), `parameters` (of the model), and `fits` (whether the memory suffices).
---@param model table
---@param layout table
---@param options? table
---@return table
function M.plan_layout(model, layout, options)
   check_model("plan_layout", model)
   if type(layout) ~= "table" then args.refuse("plan_layout", "layout", "a table", layout) end
   local o, x = options_of(options), {
      data = 1, tensor = 1, pipeline = 1, context = 1, micro = 1, interleave = 1, zero = 0,
      checkpointing = false,
   }
   for name, value in pairs(layout) do
      if x[name] == nil then torch.raise(("plan_layout: layout: unknown field %s"):format(name)) end
      x[name] = value
   end
   o.devices = x.data * x.tensor * x.pipeline * x.context
   if model.batch % (x.data * x.micro) ~= 0 then
      torch.raise(("plan_layout: layout: %d ranks with parts of %d sequences do not divide the " ..
         "batch of %d"):format(x.data, x.micro, model.batch))
   end
   return evaluate(model, x, o)
end

-- All layouts -------------------------------------------------------------------------------------

local function divisors(n, most)
   local list = {}
   for i = 1, math.min(n, most or n) do
      if n % i == 0 then list[#list + 1] = i end
   end
   return list
end

-- Calls fn(tensor, pipeline, context, data) for each way to divide the devices among these kinds of
-- parallelism.
local function each_grid(m, o, fn)
   for _, tensor in ipairs(divisors(m.heads, o.per_node)) do
      for _, pipeline in ipairs(divisors(m.layers)) do
         for _, context in ipairs(divisors(m.sequence, o.max_context)) do
            local ranks = tensor * pipeline * context
            if o.devices % ranks == 0 and m.batch % (o.devices // ranks) == 0 then
               fn(tensor, pipeline, context, o.devices // ranks)
            end
         end
      end
   end
end

local function each_layout(m, o, fn)
   each_grid(m, o, function(tensor, pipeline, context, data)
      for _, micro in ipairs(divisors(m.batch // data, 16)) do
         for _, interleave in ipairs(pipeline > 1 and divisors(m.layers // pipeline, 8) or {1}) do
            local parts = m.batch // data // micro
            if interleave == 1 or parts % pipeline == 0 then
               for _, zero in ipairs(data * context > 1 and {0, 1, 2, 3} or {0}) do
                  -- Pipelines use ZeRO's stages 0 and 1 only, since stages 2 and 3 would have to
                  -- communicate for each microbatch.
                  if zero < 2 or pipeline == 1 then
                     for _, again in ipairs {false, true} do
                        if o.checkpointing == nil or o.checkpointing == again then
                           fn {data = data, tensor = tensor, pipeline = pipeline,
                              context = context, micro = micro, interleave = interleave,
                              zero = zero, checkpointing = again}
                        end
                     end
                  end
               end
            end
         end
      end
   end)
end

--- The best layouts that `plan` has found. tostring formats them as a table.
---
---     local model = {layers = 12, width = 768, heads = 12, vocab = 50304}
---     model.sequence, model.batch = 1024, 64
---     local plan = torch.distributed.plan(model, {devices = 8, top = 3})
---     print(torch.type(plan), #plan.rows, plan.rows[1].data)
---     --> distributed.Plan	3	8
---@class distributed.Plan
---@field rows table[]  the best first; see plan_layout
---@field count integer  number of layouts that were considered
local Plan = class.class("distributed.Plan")

function Plan:__init(rows, count, fitting)
   self.rows, self.count, self.fitting = rows, count, fitting
end

function Plan:__tostring()
   local lines = {
      ("%d layouts, of which %d fit the memory"):format(self.count, self.fitting),
      "data tensor pipe context  zero micro stages again   GB/device  s/step  Tflop/s",
   }
   for _, x in ipairs(self.rows) do
      lines[#lines + 1] = ("%4d %6d %4d %7d %5d %5d %6d %5s %11.1f %7.3g %8.1f"):format(x.data,
         x.tensor, x.pipeline, x.context, x.zero, x.micro, x.interleave,
         x.checkpointing and "yes" or "no", x.bytes / 1e9, x.seconds, x.flops / 1e12)
   end
   return table.concat(lines, "\n")
end

--- Finds layouts for training a GPT on a number of devices, by formulas alone. Returns layouts that
--- fit in memory, the fastest first. A layout chooses data, tensor, pipeline and context parallel
--- ranks, ZeRO's stage, checkpointing, the size of a microbatch, and the stages on a device.
--- `model` has the fields layers, width, heads, vocab, sequence and batch (sequences in a step).
--- The options are:
--- * devices: the number of devices.
--- * memory (bytes), flops, matmul_efficiency, memory_bandwidth, node_bandwidth (bytes a second
---   within a node of per_node devices), network_bandwidth (between nodes, for each device),
---   latency (seconds): the figures of one device, by default those of an A100.
--- * checkpointing: true or false; both are tried by default.
--- * sequence_parallel (true), flash (true: attention stores no weights), max_context (1).
--- * top (10): the number of layouts to return.
---
--- The model may also be a module that resembles a GPT: its layers, width, heads, vocabulary and
--- parameters are counted. Then `sequence` and `batch` are options, and so is `heads` if no
--- submodule has it.
---@param model table|nn.Module
---@param options? table
---@return distributed.Plan
function M.plan(model, options)
   if type(model) ~= "table" then args.refuse("plan", "model", "a table or a module", model) end
   if type(options or {}) ~= "table" then args.refuse("plan", "options", "a table", options) end
   if class.isinstance(model, torch.nn.Module) then
      model = describe_module(model, options or {})
   end
   check_model("plan", model)
   local o, rows, count = options_of(options), {}, 0
   if model.width % model.heads ~= 0 then
      args.refuse("plan", "model.heads", ("a divisor of the width %d"):format(model.width),
         model.heads)
   end
   each_layout(model, o, function(layout)
      count = count + 1
      local x = evaluate(model, layout, o)
      if x.fits then rows[#rows + 1] = x end
   end)
   table.sort(rows, function(a, b)
      if a.seconds ~= b.seconds then return a.seconds < b.seconds end
      return a.bytes < b.bytes
   end)
   local best = table.move(rows, 1, math.min(o.top, #rows), 1, {})
   return Plan(best, count, #rows)
end

return M
