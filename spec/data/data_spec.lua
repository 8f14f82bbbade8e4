local torch = require "tlua"
local data = torch.data

-- x[i] = i, y[i] = -i.
local function numbers(n)
   local x = torch.arange(1, n + 1)
   return data.TensorDataset(x:view(-1, 1):float(), -x)
end

local function collect(iterator)
   local list = {}
   for x, y in iterator do list[#list + 1] = {x:flatten():tolist(), y and y:tolist()} end
   return list
end

describe("data.TensorDataset", function()
   it("has rows as items", function()
      local dataset = numbers(3)
      assert.equal(3, #dataset)
      local x, y = dataset:get(2)
      assert.same({2}, x:tolist())
      assert.equal(-2, y:item())
   end)

   it("returns many rows at once, as copies", function()
      local dataset = numbers(3)
      local x, y = dataset:get_items(torch.tensor {3, 1})
      assert.same({{3}, {1}}, x:tolist())
      assert.same({-3, -1}, y:tolist())
      x:zero_()
      assert.equal(3, dataset.tensors[1][3]:item())
   end)

   it("refuses tensors of different lengths", function()
      assert.raises("argument 2: expected 3 rows", "got 4",
         function() data.TensorDataset(torch.ones(3), torch.ones(4)) end)
      assert.raises("at least one dimension", function() data.TensorDataset(torch.tensor(1)) end)
      assert.raises("at least one tensor", function() data.TensorDataset() end)
   end)
end)

it("a dataset that is a plain table must be a list", function()
   local loader = data.DataLoader({{1, 2}, {3, 4}})
   assert.equal(2, #loader)
   assert.equal(0, #data.DataLoader {})
   local rows = {first = 1, second = 2}
   assert.raises("data.DataLoader: dataset: expected a dataset", function() data.DataLoader(rows) end)
   assert.raises("data.Subset: dataset: expected a dataset", function() data.Subset(rows, {1}) end)
   assert.raises("expected a dataset", function() data.ConcatDataset {rows} end)
   assert.raises("data.ConcatDataset: dataset 2: expected a dataset, got nil",
      function() data.ConcatDataset {{1}, nil, {2}} end)
   assert.raises("expected a dataset", function() data.random_split(rows, {1}) end)
end)

describe("a dataset", function()
   it("has items at positions, where several values are a list", function()
      local x, y = torch.tensor {1, 2, 3}, torch.tensor {4, 5, 6}
      local pairs_of, one = data.TensorDataset(x, y), data.TensorDataset(x)
      assert.equal(2, #pairs_of[2])
      assert.equal(5, pairs_of[2][2]:item())
      assert.equal(3, one[3]:item())
      assert.equal(3, one[-1]:item())
      assert.equal(2, data.Subset(one, {2})[1]:item())
      assert.raises("data.TensorDataset: expected a position from 1 to 3, got 4", function() return one[4] end)
      assert.raises("got 0", function() return one[0] end)
      assert.raises("got -4", function() return one[-4] end)
   end)

   it("can be iterated by ipairs", function()
      local list = {}
      for i, x in ipairs(data.TensorDataset(torch.tensor {4, 5})) do list[i] = x:item() end
      assert.same({4, 5}, list)
   end)

   it("defined by the user works in the same way, and keeps its fields and methods", function()
      local Squares = torch.class("IndexedSquares", data.Dataset)
      function Squares:__init(n) self.n = n end
      function Squares:__len() return self.n end
      function Squares:get(i) return i * i end
      local squares, list = Squares(3), {}
      for i, x in ipairs(squares) do list[i] = x end
      assert.same({1, 4, 9}, list)
      assert.equal(9, squares[3])
      assert.is_nil(squares.missing)
   end)

   it("can be added to another one", function()
      local both = data.TensorDataset(torch.tensor {1, 2}) + data.TensorDataset(torch.tensor {3})
      assert.equal("data.ConcatDataset", torch.type(both))
      assert.equal(3, #both)
      assert.equal(3, both[3]:item())
   end)

   it("without positions shows the right loop in its error, and can be added", function()
      local Count = torch.class("Count", data.IterableDataset)
      function Count:iter()
         local i = 0
         return function() i = i + 1 return i <= 2 and i or nil end
      end
      local right = "write for x in dataset:iter() do"
      assert.raises(right, function() for _ in ipairs(Count()) do error "never" end end)
      assert.raises(right, function() for _ in Count() do error "never" end end)
      local list = {}
      for x in (Count() + Count()):iter() do list[#list + 1] = x end
      assert.same({1, 2, 1, 2}, list)
   end)
end)

describe("a loop over a loader", function()
   local loader = torch.data.DataLoader(
      torch.data.TensorDataset(torch.tensor {1, 2, 3}, torch.tensor {4, 5, 6}), {batch_size = 2})

   it("raises an error that shows the right loop if it is written otherwise", function()
      local right = "write for x, y in loader:iter() do, or for i, x, y in loader:enumerate() do"
      local function never() error "never" end
      assert.raises(right, function() for _ in ipairs(loader) do never() end end)
      assert.raises(right, function() for _ in pairs(loader) do never() end end)
      assert.raises(right, function() for _ in loader do never() end end)
      assert.raises(right, function() return loader[1] end)
      assert.raises("write for x, y in loader:iter() do",
         function() for _ in ipairs(loader:iter()) do never() end end)
      assert.equal(2, #loader)
   end)

   it("counts the batches by enumerate", function()
      local list = {}
      for i, x, y in loader:enumerate() do list[i] = {x:tolist(), y:tolist()} end
      assert.same({{{1, 2}, {4, 5}}, {{3}, {6}}}, list)
   end)
end)

describe("parts of datasets", function()
   it("are selected by position", function()
      local part = data.Subset(numbers(5), {5, 2})
      assert.equal(2, #part)
      assert.equal(5, part:get(1):item())
      local x = part:get_items(torch.tensor {2})
      assert.same({{2}}, x:tolist())
   end)

   it("are split at random, with each item in one part", function()
      torch.manual_seed(1)
      local a, b = data.random_split(numbers(10), {7, 3})
      assert.same({7, 3}, {#a, #b})
      local all = torch.cat({a.indices, b.indices}):tolist()
      table.sort(all)
      assert.same({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, all)
   end)

   it("are split by fractions", function()
      local a, b, c = data.random_split(numbers(10), {0.5, 0.25, 0.25})
      assert.same({6, 2, 2}, {#a, #b, #c})
   end)

   it("are the same for the same generator", function()
      local g = torch.Generator()
      g:manual_seed(3)
      local a = data.random_split(numbers(10), {5, 5}, {generator = g})
      g:manual_seed(3)
      local b = data.random_split(numbers(10), {5, 5}, {generator = g})
      assert.same(a.indices:tolist(), b.indices:tolist())
   end)

   it("must have lengths that add up", function()
      assert.raises("counts that add up to 10", "got {5, 4}", function() data.random_split(numbers(10), {5, 4}) end)
   end)

   it("are concatenated", function()
      local all = data.ConcatDataset {numbers(2), {{torch.tensor {7.0}, 8}}}
      assert.equal(3, #all)
      assert.equal(2, all:get(2):item())
      assert.equal(7, all:get(3):item())
      assert.equal(8, select(2, all:get(3)))
   end)
end)

describe("data.DataLoader", function()
   it("makes batches in order", function()
      local loader = data.DataLoader(numbers(5), {batch_size = 2})
      assert.equal(3, #loader)
      assert.same({{{1, 2}, {-1, -2}}, {{3, 4}, {-3, -4}}, {{5}, {-5}}}, collect(loader:iter()))
   end)

   it("can be iterated again, and left early", function()
      local loader = data.DataLoader(numbers(5), {batch_size = 2})
      loader:iter()()
      assert.equal(3, #collect(loader:iter()))
   end)

   it("drops a smaller last batch with drop_last", function()
      local loader = data.DataLoader(numbers(5), {batch_size = 2, drop_last = true})
      assert.equal(2, #loader)
      assert.equal(2, #collect(loader:iter()))
   end)

   it("shuffles again in each epoch, with each item once", function()
      torch.manual_seed(1)
      local loader = data.DataLoader(numbers(100), {batch_size = 100, shuffle = true})
      local first, second = collect(loader:iter())[1][1], collect(loader:iter())[1][1]
      assert.not_same(first, second)
      table.sort(first)
      for i = 1, 100 do assert.equal(i, first[i]) end
   end)

   it("shuffles in the same order for the same seed", function()
      torch.manual_seed(1)
      local loader = data.DataLoader(numbers(10), {batch_size = 10, shuffle = true})
      local first = collect(loader:iter())
      torch.manual_seed(1)
      assert.same(first, collect(loader:iter()))
   end)

   it("returns single items without batch_size", function()
      local loader = data.DataLoader(numbers(2), {batch_size = false})
      local list = {}
      for x, y in loader:iter() do list[#list + 1] = {x:item(), y:item()} end
      assert.same({{1, -1}, {2, -2}}, list)
      assert.equal(2, #loader)
   end)

   it("accepts user-defined datasets", function()
      local Squares = torch.class("Squares", data.Dataset)
      function Squares:__len() return 3 end
      function Squares:get(i) return torch.tensor {i}, i * i end
      local loader = data.DataLoader(Squares(), {batch_size = 3})
      assert.same({{{1, 2, 3}, {1, 4, 9}}}, collect(loader:iter()))
   end)

   it("accepts lists of items", function()
      local loader = data.DataLoader({{torch.tensor {1.0}, 2}, {torch.tensor {3.0}, 4}}, {batch_size = 2})
      assert.same({{{1, 3}, {2, 4}}}, collect(loader:iter()))
   end)

   it("batches tables with string keys, and strings", function()
      local loader = data.DataLoader({{{x = 1, name = "a"}}, {{x = 2, name = "b"}}}, {batch_size = 2})
      local batch = loader:iter()()
      assert.same({1, 2}, batch.x:tolist())
      assert.same({"a", "b"}, batch.name)
   end)

   it("accepts a function that makes the batch", function()
      local loader = data.DataLoader({1, 2, 3}, {batch_size = 3,
         collate_fn = function(items) return #items, items[3][1] end})
      local n, last = loader:iter()()
      assert.same({3, 3}, {n, last})
   end)

   it("accepts streams", function()
      local Count = torch.class("Count", data.IterableDataset)
      function Count:iter()
         local i = 0
         return function()
            i = i + 1
            if i <= 5 then return torch.tensor {i} end
         end
      end
      local loader = data.DataLoader(Count(), {batch_size = 2})
      assert.same({{{1, 2}}, {{3, 4}}, {{5}}}, collect(loader:iter()))
      loader = data.DataLoader(Count(), {batch_size = 2, drop_last = true})
      assert.equal(2, #collect(loader:iter()))
      assert.raises("no order to choose", function() data.DataLoader(Count(), {shuffle = true}) end)
   end)

   it("accepts the user's samplers", function()
      local Odd = torch.class("Odd", data.Sampler)
      function Odd:__len() return 3 end
      function Odd:iter()
         local i = -1
         return function()
            i = i + 2
            return i <= 5 and i or nil
         end
      end
      Odd.indices = false
      local loader = data.DataLoader(numbers(6), {batch_size = 2, sampler = Odd()})
      assert.same({{{1, 3}, {-1, -3}}, {{5}, {-5}}}, collect(loader:iter()))
      loader = data.DataLoader(numbers(6), {batch_sampler = data.BatchSampler(Odd(), 3)})
      assert.equal(1, #collect(loader:iter()))
   end)

   it("accepts lists in the place of samplers", function()
      local loader = data.DataLoader({10, 20, 30}, {sampler = {3, 1, 3}, batch_size = 2})
      assert.equal(2, #loader)
      assert.same({{{30, 10}}, {{30}}}, collect(loader:iter()))
      loader = data.DataLoader({10, 20, 30}, {batch_sampler = {{3, 1}, torch.tensor {2}}})
      assert.equal(2, #loader)
      assert.same({{{30, 10}}, {{20}}}, collect(loader:iter()))
      loader = data.DataLoader({10, 20, 30}, {sampler = {0}})
      assert.raises("position 0: expected 1 to 3", function() loader:iter()() end)
   end)

   it("names the arguments that it expects", function()
      local dataset = numbers(3)
      assert.raises("unknown option batchsize; did you mean batch_size?",
         function() data.DataLoader(dataset, {batchsize = 3}) end)
      assert.raises("batch_size: expected an integer of at least 1", "got 0",
         function() data.DataLoader(dataset, {batch_size = 0}) end)
      assert.raises("dataset: expected a dataset, got 5", function() data.DataLoader(5) end)
      assert.raises("sampler: expected a sampler, such as data.SubsetRandomSampler(positions), or a list of positions",
         "got 5", function() data.DataLoader(dataset, {sampler = 5}) end)
      assert.raises("sampler[2]: expected an integer, got 1.5",
         function() data.DataLoader(dataset, {sampler = {1, 1.5}}) end)
      assert.raises("batch_sampler[1]: expected a list of positions, got 1",
         function() data.DataLoader(dataset, {batch_sampler = {1, 2}}) end)
      assert.raises("a sampler or shuffle",
         function() data.DataLoader(dataset, {shuffle = true, sampler = data.RandomSampler(dataset)}) end)
   end)
end)

describe("a dataset's metamethod __len", function()
   it("must return an integer", function()
      local Odd = torch.class("Odd", data.Dataset)
      function Odd:get(i) return i end -- luacheck: no unused args
      local length
      function Odd:__len() return length end -- luacheck: no unused args
      for _, given in ipairs {2.5, "3", -1, false} do
         length = given
         for _, shuffle in ipairs {false, true} do
            assert.raises("Odd.__len: result: expected an integer of at least 0, got ",
               function() data.DataLoader(Odd(), {shuffle = shuffle}):iter()() end)
         end
      end
      length = nil
      assert.raises("Odd.__len: result: expected an integer of at least 0, got nil",
         function() data.DataLoader(Odd()):iter()() end)
   end)
end)

describe("data.default_collate", function()
   it("loses no value of an item that differs from the first", function()
      local collate = data.default_collate
      assert.raises("item 2 of the batch has 2 values, not 1", function() collate {{1}, {1, 2}} end)
      assert.raises("value 1 of item 2 of the batch is nil", function() collate {{1, 2}, {nil, 2}} end)
      assert.raises("item 1 of the batch has the key a: expected a list of values, such as {value}",
         function() collate {{a = 1}, {a = 2}} end)
      assert.raises("item 2 of the batch: expected a list of length 2, as in the first item, got a table",
         function() collate {{{1, 2}}, {{1, 2, 3}}} end)
      assert.raises("item 3 of the batch: expected a table without list elements, as in the first item, got 5",
         function() collate {{{a = 1}}, {{a = 2}}, {5}} end)
      assert.raises("item 2 of the batch: expected a string, as in the first item, got 1",
         function() collate {{"a"}, {1}} end)
   end)
end)

describe("samplers", function()
   it("name the argument that is no dataset, sampler or epoch", function()
      assert.raises("data.SequentialSampler: dataset: expected an object with a length, got nil",
         function() data.SequentialSampler() end)
      assert.equal(2, #data.SequentialSampler(torch.zeros(2)))
      assert.raises("data.RandomSampler: num_samples: expected 0, since the dataset is empty, got 3",
         function() data.RandomSampler({}, {num_samples = 3}) end)
      assert.raises("data.BatchSampler: sampler: expected a sampler, got nil", function() data.BatchSampler(nil, 2) end)
      local sampler = data.DistributedSampler({1, 2}, {num_replicas = 1, rank = 0})
      assert.raises("set_epoch: epoch: expected an integer, got 1.5", function() sampler:set_epoch(1.5) end)
   end)

   local function positions(sampler)
      local list = {}
      for position in sampler:iter() do list[#list + 1] = position end
      return list
   end
   before_each(function() torch.manual_seed(2) end)

   it("return positions in order", function()
      assert.same({1, 2, 3}, positions(data.SequentialSampler(numbers(3))))
   end)

   it("draw positions with and without replacement", function()
      local dataset = numbers(4)
      local drawn = positions(data.RandomSampler(dataset))
      table.sort(drawn)
      assert.same({1, 2, 3, 4}, drawn)
      assert.equal(2, #positions(data.RandomSampler(dataset, {num_samples = 2})))
      local many = data.RandomSampler(dataset, {replacement = true, num_samples = 50})
      assert.equal(50, #many)
      for _, position in ipairs(positions(many)) do assert.is_true(position >= 1 and position <= 4) end
      assert.equal(9, #positions(data.RandomSampler(dataset, {num_samples = 9})))
   end)

   it("draw a part of the positions", function()
      local drawn = positions(data.SubsetRandomSampler {2, 5, 9})
      table.sort(drawn)
      assert.same({2, 5, 9}, drawn)
   end)

   it("draw positions by weight", function()
      local drawn = positions(data.WeightedRandomSampler({0, 1, 0, 3}, 4000))
      local count = {0, 0, 0, 0}
      for _, position in ipairs(drawn) do count[position] = count[position] + 1 end
      assert.same({0, 0}, {count[1], count[3]})
      assert.close(0.75, count[4] / 4000, 0.03)
   end)
end)
