-- Tests models on the meta device. Models are built and called, and optimizers make steps, without memory for tensors.
-- Models get memory from to_empty, or from load_state_dict with assign.

local problem = require "spec.support.optim"
local table_of = require "spec.support.table"
local torch = require "tlua"
local nn = torch.nn

local meta <const> = {device = "meta"}

-- The layers and inputs of spec/fixtures/nn.lua. On the meta device, results must have the shapes of PyTorch's results.
local layers <const> = dofile "spec/fixtures/nn.lua"
local recurrent <const> = dofile "spec/fixtures/rnn.lua"

-- Makes an input from a description: "f 2,3" stands for numbers of shape (2, 3), "c5 2,3" for classes, and "m 4,4" for
-- a mask.
local function input(text)
   local kind, sizes = text:match "^%s*(%a)%d* (.*)$"
   local shape = {}
   for size in sizes:gmatch "%d+" do shape[#shape + 1] = math.tointeger(size) end
   local dtype = kind == "m" and "bool" or kind == "c" and "int64" or "float64"
   return torch.empty(shape, {dtype = dtype, device = "meta"})
end

local function check_gradients(tensors)
   for _, x in ipairs(tensors) do
      assert.equal(torch.device "meta", x.grad.device)
      assert.same(x.shape, x.grad.shape)
      assert.equal(x.dtype, x.grad.dtype)
   end
end

local function backward(outputs)
   local loss = torch.zeros({}, {dtype = "float64", device = "meta"})
   for _, output in ipairs(outputs) do
      if output:is_floating_point() then loss = loss + output:sum() end
   end
   loss:backward()
end

describe("on the meta device", function()
   for _, row in ipairs(layers) do
      it(row[1] .. " has the results and gradients of " .. row[2], function()
         local inputs = {}
         for text in row[2]:gmatch "[^;]+" do inputs[#inputs + 1] = input(text) end
         if row.input then inputs[1]:requires_grad_() end
         local module = torch.default_device("meta", function()
            return load("local nn, torch = ...; return " .. row[1])(nn, torch):double()
         end)
         for name, x in module:named_parameters() do assert.equal(torch.device "meta", x.device, name) end
         for name, x in module:named_buffers() do assert.equal(torch.device "meta", x.device, name) end
         local reads = row[1]:find "CTCLoss" and "ctc_loss" or row[1]:find "AdaptiveLogSoftmax" and "item"
         if reads then -- this loss reads the values of its labels, which meta tensors do not have
            assert.raises(reads .. ": a meta tensor has no values", function() module(table.unpack(inputs)) end)
            return
         end
         local outputs = table_of.tensors(table.pack(module(table.unpack(inputs))))
         assert.equal(#row.shapes, #outputs)
         for i, shape in ipairs(row.shapes) do
            assert.same(shape, outputs[i].shape)
            assert.equal(torch.device "meta", outputs[i].device)
         end
         backward(outputs)
         check_gradients(module:parameters())
         if row.input then check_gradients {inputs[1]} end
      end)
   end

   for _, row in ipairs(recurrent) do
      if not row.lengths and not row.states then
         it(("nn.%s(%s) has the results and gradients of %s"):format(row[1], row[2],
            table.concat(row.shape, " x ")), function()
            local module = torch.default_device("meta",
               function() return load(("return (...)(3, 4, {%s})"):format(row[2]))(nn[row[1]]):double() end)
            local given = torch.empty(row.shape, {dtype = "float64", device = "meta"})
            given:requires_grad_()
            local outputs = table_of.tensors(table.pack(module(given)))
            for i, shape in ipairs(row.shapes) do assert.same(shape, outputs[i].shape) end
            backward(outputs)
            check_gradients(module:parameters())
            check_gradients {given}
         end)
      end
   end

   it("every optimizer runs a step", function()
      local steps = 0
      for _, dtype in ipairs {"float32", "float64"} do
         for _, row in ipairs(problem.rows) do
            for _, more in ipairs {{}, {foreach = false}} do
               local params = problem.parameters {dtype = dtype, device = "meta"}
               local options = problem.options(row[2])
               local optimizer = problem.make(row[1], params, options)
               if more.foreach == nil then
                  problem.step(optimizer, params, 1, 4)
               else
                  problem.set_gradients(params, 7)
                  optimizer:step(function() return params[2] end)
               end
               for _, state in pairs(optimizer.state or {}) do
                  for _, x in pairs(state) do
                     if torch.is_tensor(x) and x:dim() > 0 then assert.is_true(x.is_meta) end
                  end
               end
               steps = steps + 1
            end
         end
      end
      assert.is_true(steps > 40, steps)
   end)
end)

-- A decoder block with the structure of Llama's blocks.
local Block, Base = torch.class("MetaSpecBlock", nn.Module)

function Block:__init(o)
   Base.__init(self)
   local options = {bias = false, dtype = o.dtype, device = o.device}
   local head = o.dim // o.heads
   self.o = o
   self.norm1 = nn.RMSNorm(o.dim, {dtype = o.dtype, device = o.device})
   self.q = nn.Linear(o.dim, o.dim, options)
   self.k = nn.Linear(o.dim, o.kv_heads * head, options)
   self.v = nn.Linear(o.dim, o.kv_heads * head, options)
   self.out = nn.Linear(o.dim, o.dim, options)
   self.norm2 = nn.RMSNorm(o.dim, {dtype = o.dtype, device = o.device})
   self.gate = nn.Linear(o.dim, o.ffn, options)
   self.up = nn.Linear(o.dim, o.ffn, options)
   self.down = nn.Linear(o.ffn, o.dim, options)
end

function Block:forward(x)
   local o, b, t = self.o, x:size(1), x:size(2)
   local y = self.norm1(x)
   local function heads(z, n) return z:view(b, t, n, o.dim // o.heads):transpose(2, 3) end
   local y2 = nn.functional.scaled_dot_product_attention(heads(self.q(y), o.heads),
      heads(self.k(y), o.kv_heads), heads(self.v(y), o.kv_heads), {is_causal = true, enable_gqa = true})
   x = x + self.out(y2:transpose(2, 3):reshape(b, t, o.dim))
   y = self.norm2(x)
   return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
end

local function llama(o)
   local model = nn.Sequential(nn.Embedding(o.vocab, o.dim, {dtype = o.dtype, device = o.device}))
   for _ = 1, o.layers do model:add(Block(o)) end
   model:add(nn.RMSNorm(o.dim, {dtype = o.dtype, device = o.device}))
   model:add(nn.Linear(o.dim, o.vocab, {bias = false, dtype = o.dtype, device = o.device}))
   return model
end

local function resident()
   local file = io.open "/proc/self/status"
   if not file then return nil end
   local text = file:read "a"
   file:close()
   return math.tointeger(text:match "VmRSS:%s*(%d+) kB") * 1024
end

describe("a model of 70 billion parameters", function()
   local size <const> = {
      dim = 8192, heads = 64, kv_heads = 8, ffn = 28672, layers = 80, vocab = 128256, dtype = "bfloat16",
   }

   it("is created, called and differentiated on meta in little memory", function()
      local before = resident()
      local model = torch.default_device("meta", llama, size)
      local n = 0
      for _, p in ipairs(model:parameters()) do n = n + p:numel() end
      assert.equal(70553706496, n) -- Llama 3 70B has exactly this number of parameters
      local logits = model(torch.empty(1, 4096, {dtype = "int64", device = "meta"}))
      assert.same({1, 4096, 128256}, logits.shape)
      assert.equal("bfloat16", logits.dtype)
      logits:sum():backward()
      local optimizer = torch.optim.AdamW(model:parameters())
      optimizer:step()
      if before then assert.is_true(resident() - before < 100e6, resident() - before) end
   end)
end)

describe("Module:to_empty", function()
   local function tied()
      local model = nn.Sequential(nn.Embedding(5, 4, meta), nn.BatchNorm1d(4, meta), nn.Linear(4, 5, meta))
      model[3].weight = model[1].weight
      return model
   end

   it("allocates parameters and buffers, and keeps tied ones tied", function()
      local model = tied()
      local weight = model[1].weight
      assert.equal(model, model:to_empty {device = "cpu"})
      for name, x in model:named_parameters() do assert.equal(torch.device "cpu", x.device, name) end
      for name, x in model:named_buffers() do assert.equal(torch.device "cpu", x.device, name) end
      assert.equal(weight, model[1].weight)
      assert.equal(weight, model[3].weight)
      assert.is_true(weight.requires_grad and weight.is_parameter)
      assert.equal("int64", model[2].num_batches_tracked.dtype)
      nn.init.ones_(model[1].weight)
      assert.equal(20, model[3].weight:sum():item())
   end)

   it("allocates gradients, too, as PyTorch does", function()
      local layer = nn.Linear(2, 3, meta)
      layer(torch.empty(4, 2, meta)):sum():backward()
      assert.equal(torch.device "meta", layer.weight.grad.device)
      layer:to_empty {device = "cpu"}
      assert.equal(torch.device "cpu", layer.weight.grad.device)
      assert.same({3, 2}, layer.weight.grad.shape)
   end)

   it("keeps strides", function()
      local layer = nn.Conv2d(3, 4, 2, meta):to {memory_format = torch.channels_last}
      local strides = layer.weight:stride()
      assert.same({12, 1, 6, 3}, strides)
      assert.same(strides, layer:to_empty {device = "cpu"}.weight:stride())
   end)

   it("leaves submodules alone without recurse", function()
      local model = nn.Sequential(nn.Linear(2, 2, meta))
      model.scale = nn.Parameter(torch.ones(1, meta))
      model:to_empty {device = "cpu", recurse = false}
      assert.equal(torch.device "cpu", model.scale.device)
      assert.equal(torch.device "meta", model[1].weight.device)
   end)

   it("names its wrong arguments", function()
      assert.raises("to_empty: device", function() nn.Linear(2, 2):to_empty() end)
      assert.raises("to_empty: unknown option devise; did you mean device?",
         function() nn.Linear(2, 2):to_empty {devise = "cpu"} end)
   end)

   it("keeps the parameters of an existing optimizer", function()
      local layer = nn.Linear(2, 2, {device = "meta", bias = false})
      local optimizer = torch.optim.SGD(layer:parameters(), {lr = 1})
      layer:to_empty {device = "cpu"}
      nn.init.zeros_(layer.weight)
      layer(torch.ones(1, 2, {device = "cpu"})):sum():backward()
      optimizer:step()
      assert.same({{-1, -1}, {-1, -1}}, layer.weight:tolist())
   end)
end)

describe("Module:to", function()
   it("moves to meta, and drops the values", function()
      local layer = nn.BatchNorm1d(3):to "meta"
      assert.equal(torch.device "meta", layer.weight.device)
      assert.equal(torch.device "meta", layer.running_mean.device)
      assert.equal("float64", layer:to "float64".weight.dtype)
   end)

   it("names to_empty if there is no data to move, and moves nothing", function()
      local model = nn.Sequential(nn.Linear(2, 2, {device = "cpu"}), nn.Linear(2, 2, meta))
      assert.raises("to: 2.weight of nn.Sequential is on the meta device and has no data to copy; "
         .. "to_empty{device = \"sim\"}", function() model:to "sim" end)
      assert.equal(torch.device "cpu", model[1].weight.device)
      assert.equal(torch.device "meta", model:to "meta"[1].weight.device)
   end)
end)

describe("load_state_dict", function()
   local function filled()
      local model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
      return model, model:state_dict()
   end

   it("refuses to copy to meta, and names assign and to_empty", function()
      local _, state = filled()
      local model = torch.default_device("meta", filled)
      assert.raises("load_state_dict: 1.bias is on the meta device and has no memory to copy to: make it "
         .. "by module:to_empty{device = ...}, or load with {assign = true}", function()
         model:load_state_dict(state)
      end)
   end)

   it("refuses a state without data, and changes nothing", function()
      local model = filled()
      local _, state = torch.default_device("meta", filled)
      local before = model[1].weight:tolist()
      state["1.weight"] = torch.zeros(3, 2)
      assert.raises("load_state_dict: 1.bias of the state is on the meta device",
         function() model:load_state_dict(state) end)
      assert.same(before, model[1].weight:tolist())
   end)

   it("puts the state's tensors in place by assign", function()
      local full, state = filled()
      local model = torch.default_device("meta", filled)
      model:load_state_dict(state, {assign = true})
      local weight = model[1].weight
      assert.is_true(weight.is_parameter and weight.requires_grad)
      assert.equal(full[1].weight:data_ptr(), weight:data_ptr())
      assert.equal(full[2].running_mean:data_ptr(), model[2].running_mean:data_ptr())
      local x = torch.randn(4, 2)
      assert.close(full(x), model(x), 0)
   end)

   it("takes dtypes over by assign", function()
      local model = nn.Linear(2, 3, meta)
      model:load_state_dict({weight = torch.ones(3, 2, {dtype = "float64"}),
         bias = torch.ones(3, {dtype = "float64"})}, {assign = true})
      assert.equal("float64", model.weight.dtype)
   end)
end)
