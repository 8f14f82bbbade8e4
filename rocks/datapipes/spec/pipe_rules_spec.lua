-- Tests rules that all pipes follow: only one iteration at a time, user-defined classes, checks of types, and use in
-- DataLoaders.

local torch = require "tlua"
local shell = require "spec.support.shell"
local data = torch.data
local W = data.datapipes.iter.IterableWrapper

local function list(pipe)
   local items = {}
   for item in pipe:iter() do items[#items + 1] = item end
   return items
end

-- Defines a class of pipes whose items are the integers 1 to n.
local function counter(name)
   local Counter = torch.class(name or "Counter", data.IterDataPipe)
   function Counter:__init(n) self.n = n end
   function Counter:iter()
      local i = 0
      return function()
         i = i + 1
         return i <= self.n and i or nil
      end
   end
   return Counter
end

-- Runs a program in a separate interpreter, and returns its output.
local function run(text)
   return shell.with_folder(function(folder)
      local path = folder .. "/program.lua"
      shell.write(path, "local torch = require 'tlua'\nlocal data = torch.data\n"
         .. "local W = data.datapipes.iter.IterableWrapper\n" .. text)
      return shell.ok(shell.start() .. " " .. shell.quote(path))
   end)
end

describe("a pipe", function()
   it("has one iteration at a time", function()
      local pipe = W {1, 2, 3}:map(function(x) return x end)
      local first = pipe:iter()
      assert.equal(1, first())
      local second = pipe:iter()
      assert.equal(1, second())
      for _ = 1, 2 do
         assert.raises("data.datapipes.iter.Mapper: this iteration ended when another one of the same "
            .. "pipe began", function() first() end)
      end
      assert.equal(2, second())
   end)

   it("may be iterated again after its end", function()
      local pipe = W {1}
      local first = pipe:iter()
      assert.same({1, nil}, {first(), (first())})
      assert.same({1}, list(pipe))
      assert.is_nil(first())
   end)

   it("names its source in the error if two readers iterate it", function()
      local source = W {1, 2}
      assert.raises("iter.IterableWrapper: this iteration ended", function() source:zip(source):iter()() end)
   end)

   it("can be defined by the user, is reset, and may use its parent's iter", function()
      local resets = 0
      local Counter = counter()
      function Counter.reset() resets = resets + 1 end
      local Twice = torch.class("Twice", Counter)
      function Twice:iter()
         local next_item = Counter.iter(self)
         return function()
            local x = next_item()
            return x and 2 * x
         end
      end
      local pipe = Twice(3)
      assert.same({{2, 4}, {6}}, list(pipe:batch(2)))
      assert.equal(1, resets)
      local first = pipe:iter()
      pipe:iter()
      assert.equal(3, resets)
      assert.raises("Twice: this iteration ended", function() first() end)
      assert.raises("Twice has no length", function() return #pipe end)
   end)

   it("works after an iter that failed", function()
      local Shaky = counter "Shaky"
      local good, fails = Shaky.iter, true
      function Shaky:iter()
         if fails then error("not now", 0) end
         return good(self)
      end
      local pipe = Shaky(2)
      assert.equal("not now", select(2, pcall(pipe.iter, pipe)))
      fails = false
      local first = pipe:iter()
      assert.same({1, 2}, list(pipe))
      assert.raises("Shaky: this iteration ended", function() first() end)
   end)

   it("can have an iter that returns a function", function()
      local Wrong = torch.class("Wrong", data.IterDataPipe)
      function Wrong.iter() return 5 end
      assert.raises("Wrong: iter: expected a function that gives the next item, got 5", function() Wrong():iter() end)
      assert.raises("None has no method iter", function() torch.class("None", data.IterDataPipe)():iter() end)
   end)

   it("keeps no state after a break out of the loop", function()
      local there = setmetatable({}, {__mode = "k"})
      do
         local function mark(x)
            local item = {x}
            there[item] = true
            return item
         end
         local a, b = W {1, 2, 3, 4, 5, 6}:map(mark):shuffle():fork(2)
         local even, odd = W {1, 2, 3}:map(mark):demux(2, function(x) return x[1] % 2 + 1 end)
         a:zip(b, odd):batch(2):mux(even):iter()()
         there[a], there[even] = true, true
      end
      collectgarbage()
      collectgarbage()
      assert.is_nil(next(there))
   end)
end)

describe("data.functional_datapipe", function()
   it("adds a functional form to pipes", function()
      local Plus = torch.class("Plus", data.IterDataPipe)
      function Plus:__init(source, n) self.source, self.n = source, n end
      function Plus:iter()
         local next_item = self.source:iter()
         return function()
            local x = next_item()
            return x and x + self.n
         end
      end
      assert.equal(Plus, data.functional_datapipe "plus_of_spec"(Plus))
      assert.same({13, 14}, list(W {1, 2}:plus_of_spec(2):plus_of_spec(10)))
      assert.is_nil(data.MapDataPipe.plus_of_spec)
      assert.raises("data.IterDataPipe: name: expected a name that is not in use, got plus_of_spec",
         function() data.functional_datapipe "plus_of_spec"(Plus) end)
   end)

   it("adds a functional form to pipes with positions", function()
      local Last = torch.class("Last", data.MapDataPipe)
      function Last:__init(source) self.source = source end
      function Last.__len() return 1 end
      function Last:get() return self.source:get(#self.source) end
      data.functional_datapipe "last_of_spec"(Last)
      assert.equal(3, data.datapipes.map.SequenceWrapper {1, 2, 3}:last_of_spec():get(1))
   end)

   it("accepts only classes of pipes and unused names", function()
      assert.raises("expected a class that derives from data.IterDataPipe or data.MapDataPipe, got "
         .. "class Any", function() data.functional_datapipe "any"(torch.class "Any") end)
      for _, taken in ipairs {"map", "iter", "reset"} do
         assert.raises("name: expected a name that is not in use, got " .. taken,
            function() data.functional_datapipe(taken)(counter()) end)
      end
      assert.raises("name: expected a name of letters, digits and underscores, got \"a b\"",
         function() data.functional_datapipe "a b"(counter()) end)
      assert.raises("expected a name that is not in use, got the method iter",
         function() data.IterDataPipe.register_function("iter", print) end)
      assert.raises("data.IterDataPipe: fn: expected a function, got 3",
         function() data.IterDataPipe.register_function("three_of_spec", 3) end)
      assert.raises("data.MapDataPipe: cls: expected a class or a function, got nil",
         function() data.MapDataPipe.register_datapipe_as_function "three_of_spec" end)
      assert.raises("data.functional_datapipe: name: expected a string, got 3",
         function() data.functional_datapipe(3) end)
   end)

   it("has a counterpart that takes a function", function()
      data.IterDataPipe.register_function("first_of_spec", function(pipe) return pipe:iter()() end)
      assert.equal(7, W {7, 8}:first_of_spec())
   end)
end)

describe("data.runtime_validation", function()
   local function typed(kind, ...)
      local items = {...}
      local Typed = torch.class("Typed", data.IterDataPipe)
      Typed.type = kind
      Typed.iter = data.runtime_validation(function()
         local i = 0
         return function()
            i = i + 1
            return items[i]
         end
      end)
      return Typed()
   end

   it("checks items against the declared type", function()
      assert.same({1, 2}, list(typed("integer", 1, 2)))
      assert.same({1, "a"}, list(typed("integer|string", 1, "a")))
      assert.same({1.5}, list(typed("number", 1.5)))
      assert.same({1, "a"}, list(typed("any", 1, "a")))
      assert.same({4}, list(typed(function(x) return x % 2 == 0 end, 4)))
      assert.equal(1, #list(typed("Tensor", torch.ones(1))))
      assert.equal(1, #list(typed(data.DataChunk, data.DataChunk {1})))
      local pipe = typed("integer", 1, 2.5)
      local next_item = pipe:iter()
      assert.equal(1, next_item())
      assert.raises("Typed: expected items of type integer, got 2.5", function() next_item() end)
      assert.raises("Typed: expected items of type what its predicate takes, got 3", function()
         typed(function(x) return x % 2 == 0 end, 3):iter()()
      end)
      assert.raises("expected items of type data.DataChunk, got a table",
         function() typed(data.DataChunk, {}):iter()() end)
   end)

   it("checks items of several values", function()
      local Pairs = torch.class("Pairs", data.IterDataPipe)
      Pairs.type = {"integer", "string"}
      function Pairs:__init(...) self.items = {...} end
      Pairs.iter = data.runtime_validation(function(self) return function() return table.unpack(self.items) end end)
      assert.same({1, "a"}, {Pairs(1, "a"):iter()()})
      assert.raises("Pairs: expected items of type (integer, string), got 1 and 2",
         function() Pairs(1, 2):iter()() end)
      assert.raises("Pairs: expected items of type (integer, string), got 1", function() Pairs(1):iter()() end)
   end)

   it("can be switched off", function()
      local pipe = typed("integer", "a")
      assert.same({"a"}, data.runtime_validation_disabled(function() return list(pipe) end))
      do
         local _ <close> = data.runtime_validation_disabled()
         assert.same({"a"}, list(pipe))
      end
      pcall(data.runtime_validation_disabled, function() error "left" end)
      assert.raises("Typed: expected items", function() pipe:iter()() end)
      assert.raises("data.runtime_validation: iter: expected a method iter, got 5",
         function() data.runtime_validation(5) end)
   end)

   it("checks the type that reinforce_type has set", function()
      local pipe = typed("number", 1, 2.5):reinforce_type "integer"
      local next_item = pipe:iter()
      assert.equal(1, next_item())
      assert.raises("Typed: expected items of type integer, got 2.5", function() next_item() end)
      assert.raises("Typed: reinforce_type: expected a part of integer, got string",
         function() pipe:reinforce_type "string" end)
      assert.raises("reinforce_type: expected_type: expected a type", "got 5", function() pipe:reinforce_type(5) end)
   end)
end)

describe("data.argument_validation", function()
   local function pipe_of(kind)
      local pipe = W {1}
      pipe.type = kind
      return pipe
   end

   local function checked(hint)
      return data.argument_validation(function(_, source) return source end, {source = hint})
   end

   it("takes pipes of the declared type", function()
      for _, pair in ipairs {
         {"integer", "integer"}, {"integer", "number"}, {"integer", "integer|string"}, {"string", "any"},
         {{"integer", "float"}, {"number", "number"}}, {data.DFIterDataPipe, "any"},
         {data.DataChunk, "data.DataChunk|string"},
      } do
         local pipe = pipe_of(pair[1])
         assert.equal(pipe, checked(pair[2])(1, pipe))
      end
      assert.is_nil(checked "integer"(1))
   end)

   it("refuses pipes of another type", function()
      for _, pair in ipairs {
         {"number", "integer"}, {"integer|string", "integer"}, {"any", "integer"},
         {{"integer"}, {"integer", "integer"}}, {"integer", {"integer"}}, {print, "integer"},
      } do
         assert.raises("data.argument_validation: source: expected a pipe with items of type",
            function() checked(pair[2])(1, pipe_of(pair[1])) end)
      end
      assert.raises("data.argument_validation: source: expected an instance of data.IterDataPipe, got 5",
         function() checked "integer"(1, 5) end)
   end)

   it("takes a class of pipes as hint, and names of parameters only", function()
      local Frames = torch.class("Frames", data.DFIterDataPipe)
      assert.truthy(checked(data.DFIterDataPipe)(1, Frames()))
      assert.raises("source: expected an instance of data.DFIterDataPipe",
         function() checked(data.DFIterDataPipe)(1, W {1}) end)
      assert.raises("hints: expected names of parameters, got sauce", function()
         data.argument_validation(function(source) return source end, {sauce = "any"})
      end)
      assert.raises("data.argument_validation: source: expected a type", function() checked(5) end)
      assert.raises("data.argument_validation: fn: expected a function, got 5",
         function() data.argument_validation(5, {}) end)
   end)
end)

describe("data.non_deterministic", function()
   it("marks classes that guaranteed_datapipes_determinism refuses", function()
      local Noise = data.non_deterministic(counter "Noise")
      local Louder = torch.class("Louder", Noise)
      assert.same({1, 2}, list(Noise(2)))
      for _, class in ipairs {Noise, Louder} do
         assert.raises(class.__name .. ": marked non_deterministic; expected a deterministic pipe",
            function() data.guaranteed_datapipes_determinism(function() return class(2) end) end)
      end
      do
         local _ <close> = data.guaranteed_datapipes_determinism()
         assert.raises("Noise: marked non_deterministic", function() Noise(1) end)
         assert.same({1}, list(counter()(1)))
      end
      assert.same({1}, list(Noise(1)))
   end)

   it("may depend on the arguments", function()
      local Sometimes = data.non_deterministic(function(n) return n > 1 end)(counter "Sometimes")
      local _ <close> = data.guaranteed_datapipes_determinism()
      assert.same({1}, list(Sometimes(1)))
      assert.raises("Sometimes: marked non_deterministic", function() Sometimes(2) end)
      local Wrong = data.non_deterministic(function() return 5 end)(counter "Wrong")
      assert.raises("Wrong: non_deterministic: expected a boolean as the result of its function, got 5",
         function() Wrong(1) end)
   end)

   it("takes classes of pipes", function()
      assert.raises("data.non_deterministic: expected a class that derives from data.IterDataPipe, got "
         .. "class data.Dataset", function() data.non_deterministic(data.Dataset) end)
      assert.raises("got 5", function() data.non_deterministic(5) end)
   end)
end)

describe("a DataLoader of pipes", function()
   it("reads a different shard in each worker", function()
      assert.equal("1,2 3,4 5,6 7,8 9\n1,3 2,4 5,7 6,8 9\n1,2 1,2 3 3\n", run [[
         local function show(pipe, n)
            local texts = {}
            for x in data.DataLoader(pipe, {batch_size = 2, num_workers = n}):iter() do
               texts[#texts + 1] = table.concat(x:tolist(), ",")
            end
            print(table.concat(texts, " "))
         end
         local function same(x) return x end
         for n = 0, 2, 2 do show(W {1, 2, 3, 4, 5, 6, 7, 8, 9}:sharding_filter():map(same), n) end
         show(W {1, 2, 3}, 2)]])
   end)

   it("divides among the processes of a group first, then among their workers", function()
      assert.equal("2 4 6 8\n2 4 6 8\n2 6 4 8\n", run [[
         local group = torch.distributed
         group.is_initialized = function() return true end
         group.get_world_size = function() return 2 end
         group.get_rank = function() return 1 end
         for _, options in ipairs {{1, 0}, {1, 2}, {2, 2}} do
            local texts = {}
            local pipe = W {1, 2, 3, 4, 5, 6, 7, 8}:sharding_filter()
            local loader = data.DataLoader(pipe, {batch_size = options[1], num_workers = options[2]})
            for x in loader:iter() do
               for _, i in ipairs(x:tolist()) do texts[#texts + 1] = i end
            end
            print(table.concat(texts, " "))
         end]])
   end)

   it("sends pipes of all kinds to its workers", function()
      assert.equal("{1, 5} {2, 6} {3, 7} {4, 8}\n{1, 5} {2, 6} {3, 7} {4, 8}\n6\n", run [[
         local Plus = torch.class("Plus", data.IterDataPipe)
         Plus.type = "integer"
         function Plus:__init(source, n) self.source, self.n = source, n end
         Plus.iter = data.runtime_validation(function(self)
            local next_item = self.source:iter()
            return function()
               local x = next_item()
               return x and x + self.n
            end
         end)
         data.functional_datapipe "plus"(Plus)
         for n = 0, 2, 2 do
            local a, b = W {0, 1, 2, 3}:plus(1):sharding_filter():fork(2)
            local texts = {}
            local pipe = a:zip(b:plus(4)):batch(1):collate()
            for x, y in data.DataLoader(pipe, {batch_size = false, num_workers = n}):iter() do
               texts[#texts + 1] = ("{%d, %d}"):format(x:item(), y:item())
            end
            print(table.concat(texts, " "))
         end
         local sum = 0
         local positions = data.datapipes.map.SequenceWrapper {1, 2, 3}:map(function(x) return x end)
         for x in data.DataLoader(positions, {num_workers = 2}):iter() do sum = sum + x:item() end
         print(sum)]])
   end)

   it("seeds shuffles by its generator, equally in all workers and differently in each epoch", function()
      local output = run [[
         local numbers = {}
         for i = 1, 40 do numbers[i] = i end
         local function epochs(n, options)
            torch.manual_seed(5)
            options.num_workers, options.batch_size = n, 10
            local loader = data.DataLoader(W(numbers):shuffle():sharding_filter(), options)
            local orders = {}
            for epoch = 1, 2 do
               local seen, order = {}, {}
               for x in loader:iter() do
                  for _, i in ipairs(x:tolist()) do
                     assert(not seen[i])
                     seen[i], order[#order + 1] = true, i
                  end
               end
               assert(#order == 40)
               orders[epoch] = table.concat(order, " ")
            end
            assert(orders[1] ~= orders[2])
            return table.concat(orders, "|")
         end
         for n = 0, 2, 2 do
            assert(epochs(n, {}) == epochs(n, {}))
            assert(epochs(n, {persistent_workers = n > 0}) == epochs(n, {}))
            local function seeded(seed)
               return epochs(n, {generator = torch.Generator():manual_seed(seed)})
            end
            assert(seeded(1) == seeded(1) and seeded(1) ~= seeded(2))
         end
         print "alike"]]
      assert.equal("alike\n", output)
   end)

   it("switches shuffles on and off", function()
      local numbers = {}
      for i = 1, 30 do numbers[i] = i end
      local function order(pipe, shuffle)
         return data.DataLoader(pipe, {batch_size = 30, shuffle = shuffle}):iter()():tolist()
      end
      assert.same(numbers, order(W(numbers):shuffle():map(math.abs), false))
      assert.not_same(numbers, order(W(numbers):shuffle():set_shuffle(false):map(math.abs), true))
      assert.not_same(numbers, order(W(numbers), true))
      assert.same(numbers, order(W(numbers), nil))
      assert.raises("a dataset without positions has no order to choose",
         function() data.DataLoader(data.ChainDataset {W(numbers)}, {shuffle = true}) end)
   end)

   it("continues from a saved state", function()
      local numbers = {}
      for i = 1, 30 do numbers[i] = i end
      local function make() return data.DataLoader(W(numbers):shuffle(), {batch_size = 10}) end
      torch.manual_seed(2)
      local loader = make()
      local next_batch = loader:iter()
      next_batch()
      local state = loader:state_dict()
      local second = next_batch():tolist()
      local other = make():load_state_dict(state)
      assert.same(second, other:iter()():tolist())
   end)

   it("ends an epoch when the next one begins", function()
      local loader = data.DataLoader(W {1, 2, 3})
      local first = loader:iter()
      first()
      loader:iter()
      assert.raises("iter.IterableWrapper: this iteration ended", function() first() end)
   end)

   it("collates data chunks as lists", function()
      local pipe = W {1, 2, 3, 4}:batch(2)
      local batch = data.DataLoader(pipe, {batch_size = 2}):iter()()
      assert.same({{1, 3}, {2, 4}}, {batch[1]:tolist(), batch[2]:tolist()})
      assert.equal(2, data.default_convert(data.DataChunk {1, 2})[2]:item())
   end)

   it("names the worker whose pipe failed", function()
      assert.equal("true\n", run [[
         local loader = data.DataLoader(W {1, 2}:map(function() end), {num_workers = 1})
         local ok, message = pcall(function() for _ in loader:iter() do end end)
         print(not ok and message:find("worker 0 of 1: .*iter.Mapper: fn returned nil") ~= nil)]])
   end)
end)

it("data.graph_settings finds all pipes, each once", function()
   local source = W {1, 2}
   local a, b = source:fork(2)
   local shuffled = a:shuffle()
   local pipe = shuffled:zip(b)
   local pipes = data.graph_settings.get_all_graph_pipes(pipe)
   local seen = {}
   for _, each in ipairs(pipes) do seen[each] = (seen[each] or 0) + 1 end
   for _, each in ipairs {pipe, shuffled, a, b, source} do assert.equal(1, seen[each]) end
   assert.equal(6, #pipes) -- the count includes the internal pipe from which the branches read
   assert.equal(pipe, pipes[1])
   assert.raises("data.graph_settings.get_all_graph_pipes: datapipe: expected a pipe, got 5",
      function() data.graph_settings.get_all_graph_pipes(5) end)
end)
