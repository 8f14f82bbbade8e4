-- Tests dist.plan, which plans how to split a model over many devices, against published results.

local torch = require "tlua"
local dist = torch.distributed

-- The rows of Table 1 of "Efficient Large-Scale Language Model Training on GPU Clusters Using
-- Megatron-LM" (Narayanan et al., 2021): parameters in 1e9, heads, width, layers, tensor and pipeline
-- parallel sizes, GPUs, batch, teraflop/s for each GPU. Sequences have 2048 tokens; the vocabulary has
-- 51200 tokens.
local published <const> = {
   {1.7, 24, 2304, 24, 1, 1, 32, 512, 137}, {3.6, 32, 3072, 30, 2, 1, 64, 512, 138},
   {7.5, 32, 4096, 36, 4, 1, 128, 512, 142}, {18.4, 48, 6144, 40, 8, 1, 256, 1024, 135},
   {39.1, 64, 8192, 48, 8, 2, 512, 1536, 138}, {76.1, 80, 10240, 60, 8, 4, 1024, 1792, 140},
   {145.6, 96, 12288, 80, 8, 8, 1536, 2304, 148},
   {310.1, 128, 16384, 96, 8, 16, 1920, 2160, 155},
   {529.6, 128, 20480, 105, 8, 35, 2520, 2520, 163},
   {1008.0, 160, 25600, 128, 8, 64, 3072, 3072, 163},
}

local function model(heads, width, layers, batch, sequence)
   return {layers = layers, width = width, heads = heads, vocab = 51200, batch = batch, sequence = sequence or 2048}
end

-- Returns the layout of a published row, with the micro-batch size and the number of stages per device that make a step
-- fastest, since a row does not have these two numbers.
local function best_of(row)
   local _, heads, width, layers, tensor, pipeline, devices, batch = table.unpack(row)
   local data, best = devices // (tensor * pipeline), nil
   for _, micro in ipairs {1, 2, 4, 8} do
      for interleave = 1, pipeline > 1 and 5 or 1 do
         if batch % (data * micro) == 0 and layers // pipeline % interleave == 0 then
            local x = dist.plan_layout(model(heads, width, layers, batch), {data = data,
               tensor = tensor, pipeline = pipeline, micro = micro, interleave = interleave,
               checkpointing = true}, {flash = false, sequence_parallel = false})
            if x.fits and (not best or x.seconds < best.seconds) then best = x end
         end
      end
   end
   return best
end

describe("distributed.plan", function()
   it("has the throughput of ten published trainings within 15 %, with one set of constants",
      function()
      for _, row in ipairs(published) do
         local x = best_of(row)
         assert.near(row[1], x.parameters / 1e9, 0.05)
         local off = x.flops / 1e12 / row[9] - 1
         assert.is_true(math.abs(off) < 0.15, ("%g: off by %.1f %%"):format(row[1], 100 * off))
      end
   end)

   -- Figure 1 of the ZeRO paper gives these numbers: with 7.5e9 parameters on 64 ranks, a rank needs 120, 31.4, 16.6
   -- and 1.9 GB.
   it("computes the bytes of parameters, gradients and state as the paper on ZeRO", function()
      local m = model(32, 4096, 36, 64, 1)
      for zero, gigabytes in pairs {[0] = 120, 31.4, 16.6, 1.9} do
         local x = dist.plan_layout(m, {data = 64, zero = zero}, {memory = 1e12})
         assert.near(gigabytes, x.bytes / x.parameters * 7.5, 0.06)
      end
   end)

   -- Section 5 of "Reducing Activation Recomputation" gives these numbers: without the attention weights, activations
   -- need 70 % less memory for GPT-3, and 65 % less for MT-NLG.
   it("computes the bytes of activations", function()
      for _, case in ipairs {{96, 12288, 0.70}, {128, 20480, 0.65}} do
         local function held(flash)
            local function bytes(layers)
               local m = model(case[1], case[2], layers, 1)
               return dist.plan_layout(m, {}, {flash = flash}).bytes
            end
            local weights = 16 * 12 * case[2] ^ 2 * (1 + 13 / (12 * case[2]))
            return bytes(2) - bytes(1) - weights
         end
         assert.near(case[3], 1 - held(true) / held(false), 0.005)
      end
   end)

   it("finds the fastest layouts that fit, and prints them", function()
      local m = model(64, 8192, 48, 1536)
      local found = dist.plan(m, {devices = 512})
      assert.equal(10, #found.rows)
      for i, x in ipairs(found.rows) do
         assert.equal(512, x.data * x.tensor * x.pipeline * x.context)
         assert.is_true(x.bytes <= 80e9)
         assert.is_true(i == 1 or x.seconds >= found.rows[i - 1].seconds)
      end
      local lines = 0
      for line in tostring(found):gmatch "[^\n]+" do
         lines = lines + 1
         assert.is_true(#line <= 100)
      end
      assert.equal(12, lines)
      assert.matches("layouts, of which %d+ fit the memory", tostring(found))
      -- With less memory, a step takes longer. With too little memory, no layout fits.
      local small = dist.plan(m, {devices = 512, memory = 8e9})
      assert.is_true(small.rows[1].seconds > found.rows[1].seconds)
      assert.equal(0, #dist.plan(m, {devices = 512, memory = 1e8}).rows)
      -- For long sequences, the plan has context parallel ranks.
      local long = {layers = 32, width = 4096, heads = 32, vocab = 51200, sequence = 1 << 20, batch = 8}
      assert.equal(0, #dist.plan(long, {devices = 64, checkpointing = false}).rows)
      local split = dist.plan(long, {devices = 64, max_context = 64})
      assert.is_true(split.rows[1].context > 1)
   end)

   it("counts the layers and sizes of a module", function()
      local nn = torch.nn
      local Small = torch.class("spec.PlannedGpt", nn.Module)
      function Small:__init()
         nn.Module.__init(self)
         self.tokens, self.places = nn.Embedding(1000, 64), nn.Embedding(32, 64)
         self.blocks = nn.ModuleList()
         for _ = 1, 4 do self.blocks:append(nn.TransformerEncoderLayer(64, 8, 256)) end
         self.head = nn.Linear(64, 1000)
      end
      local module = Small()
      local count = 0
      for _, p in ipairs(module:parameters()) do count = count + p:numel() end
      local plan = torch.distributed.plan(module, {devices = 4, batch = 8, sequence = 32})
      assert.equal(count, plan.rows[1].parameters)
      local same = {layers = 4, width = 64, heads = 8, vocab = 1000, sequence = 32, batch = 8, parameters = count}
      assert.same(torch.distributed.plan(same, {devices = 4}).rows, plan.rows)
      assert.raises("plan: options: expected a table, got 3",
         function() torch.distributed.plan(torch.nn.Linear(2, 2), 3) end)
      assert.raises("plan: options: batch is missing: expected an integer, which " ..
         "spec.PlannedGpt does not tell", function()
         torch.distributed.plan(module, {devices = 4, sequence = 32})
      end)
      assert.raises("plan: model: expected a table of layers, width, heads, vocab, sequence, batch " ..
         "or a module like a GPT, got nn.Linear, which has no nn.Embedding", function()
         torch.distributed.plan(nn.Linear(3, 4))
      end)
      assert.raises("got nn.Embedding, which has no list of modules, for layers",
         function() torch.distributed.plan(nn.Embedding(3, 4)) end)
   end)

   it("refuses unknown arguments", function()
      local m = model(64, 8192, 48, 1536)
      local function refused(text, fn, ...)
         local given = table.pack(...)
         assert.raises(text, function() fn(table.unpack(given, 1, given.n)) end)
      end
      refused("plan: model.layers: expected an integer of at least 1, got nil", dist.plan, {})
      refused("plan: unknown option gpus", dist.plan, m, {gpus = 8})
      refused("plan: devices: expected a number above 0, got 0", dist.plan, m, {devices = 0})
      refused("plan_layout: layout: unknown field dp", dist.plan_layout, m, {dp = 2})
      refused("do not divide the batch of 1536", dist.plan_layout, m, {data = 7})
      refused("plan: model: unknown field seq", dist.plan, {layers = 1, width = 1, heads = 1,
         vocab = 1, sequence = 1, batch = 1, seq = 1})
   end)
end)
