local torch = require "tlua"
local data = torch.utils.data

it("torch.utils.data has PyTorch's names", function()
   local missing = {}
   for name in ([[BatchSampler ChainDataset ConcatDataset DFIterDataPipe DataChunk DataLoader Dataset
            DistributedSampler IterDataPipe IterableDataset MapDataPipe RandomSampler Sampler
            SequentialSampler StackDataset Subset SubsetRandomSampler TensorDataset
            WeightedRandomSampler argument_validation default_collate default_convert
            functional_datapipe get_worker_info guaranteed_datapipes_determinism non_deterministic
            random_split runtime_validation runtime_validation_disabled]]):gmatch "[%w_]+" do
      if data[name] == nil then missing[#missing + 1] = name end
   end
   assert.same({}, missing)
end)

local function stream(n)
   local Stream = torch.class("Stream", data.IterableDataset)
   function Stream:__len() return n end
   function Stream:iter()
      local i = 0
      return function()
         i = i + 1
         if i <= n then return i, -i end
      end
   end
   return Stream()
end

describe("data.ChainDataset", function()
   it("returns the items of one stream after the other, also of empty ones", function()
      local chain, list = data.ChainDataset {stream(2), stream(0), stream(1)}, {}
      for a, b in chain:iter() do list[#list + 1] = {a, b} end
      assert.same({{1, -1}, {2, -2}, {1, -1}}, list)
      assert.equal(3, #chain)
      local batches = {}
      for x in data.DataLoader(chain, {batch_size = 2}):iter() do batches[#batches + 1] = x:tolist() end
      assert.same({{1, 2}, {1}}, batches)
   end)

   it("accepts only streams", function()
      assert.raises("data.ChainDataset: dataset 2: expected an iterable dataset, got 5",
         function() data.ChainDataset {stream(1), 5} end)
   end)
end)

describe("data.StackDataset", function()
   it("combines items by position or by name", function()
      local x = torch.arange(1, 4)
      local stack = data.StackDataset(x, {10, 20, 30})
      assert.equal(3, #stack)
      local a, b = stack:get(2)
      assert.same({2, 20}, {a:item(), b})
      local named = data.StackDataset {image = x, label = {10, 20, 30}}
      assert.equal(30, named:get(3).label)
      local batch = data.DataLoader(named, {batch_size = 3}):iter()()
      assert.same({1, 2, 3}, batch.image:tolist())
      assert.same({10, 20, 30}, batch.label:tolist())
   end)

   it("refuses datasets of different lengths", function()
      assert.raises("dataset 2: expected 3 items as in the others, got 2",
         function() data.StackDataset(torch.ones(3), {1, 2}) end)
      assert.raises("at least one dataset", function() data.StackDataset() end)
   end)
end)

it("data.default_convert converts numbers to tensors, also in tables", function()
   local x = data.default_convert {a = 1.5, b = {2, "text"}}
   assert.equal(1.5, x.a:item())
   assert.equal(2, x.b[1]:item())
   assert.equal("text", x.b[2])
   assert.is_nil(data.default_convert(nil))
end)

describe("data.DistributedSampler", function()
   local function shares(n, parts, options)
      local list = {}
      for rank = 0, parts - 1 do
         options.num_replicas, options.rank = parts, rank
         local sampler = data.DistributedSampler(torch.ones(n), options)
         list[rank + 1] = sampler:indices():tolist()
         assert.equal(#sampler, #list[rank + 1])
      end
      return list
   end

   it("gives each process its part, as PyTorch does", function()
      assert.same({{1, 4, 7, 10}, {2, 5, 8, 1}, {3, 6, 9, 2}}, shares(10, 3, {shuffle = false}))
      assert.same({{1, 4, 7}, {2, 5, 8}, {3, 6, 9}}, shares(10, 3, {shuffle = false, drop_last = true}))
      assert.same({{1}, {2}, {1}, {2}, {1}}, shares(2, 5, {shuffle = false}))
   end)

   it("shuffles equally in all processes, and differently in each epoch", function()
      local all = {}
      for _, share in ipairs(shares(9, 3, {})) do
         for _, i in ipairs(share) do all[#all + 1] = i end
      end
      table.sort(all)
      assert.same({1, 2, 3, 4, 5, 6, 7, 8, 9}, all)
      local sampler = data.DistributedSampler(torch.ones(100), {num_replicas = 2, rank = 0})
      local first = sampler:indices():tolist()
      assert.same(first, sampler:indices():tolist())
      sampler:set_epoch(1)
      assert.not_same(first, sampler:indices():tolist())
   end)

   it("requires rank and size", function()
      assert.raises("rank: expected an integer from 0 to 1, got 2",
         function() data.DistributedSampler(torch.ones(4), {num_replicas = 2, rank = 2}) end)
   end)
end)
