-- Tests finalizers. They run wherever Lua allocates memory, even in the middle of a call of the library. They may
-- release or change tensors that this call is reading.

local torch = require "tlua"

-- How often each call is repeated. During these calls, almost every allocation runs a collection cycle. An error may
-- occur in only one of a hundred calls, so larger numbers help to find errors with a sanitizer.
local asked <const> = tonumber(os.getenv "SPEC_TIMES")
local sanitized <const> = os.getenv "SPEC_SANITIZED" == "1"
local many <const>, few <const> = asked or (sanitized and 12 or 25), asked or (sanitized and 2 or 3)
-- These calls make many allocations, so they are repeated less often.
local long_calls <const> = {jacobians = true, ["saving and loading"] = true, ["NumPy's files"] = true,
   vmap = true, checkpoint = true, collating = true, optimizers = true}

-- Calls fn(x) repeatedly. Meanwhile, finalizers call `disturb` with the tensor x.
local function under_fire(make, fn, disturb, times)
   local current
   local stop = false
   local function arm()
      setmetatable({}, {__gc = function()
         if stop then return end
         if current then disturb(current) end
         arm()
      end})
   end
   -- from now on, almost every allocation runs a collection cycle
   local mode = collectgarbage("incremental", 1, 10000, 0)
   arm()
   for _ = 1, times or few do
      current = nil
      current = make()
      local ok, message = pcall(fn, current)
      assert(ok or type(message) == "string" and message:find("_spec.lua:%d"), message)
   end
   stop = true
   collectgarbage("incremental", 200, 100, 13)
   collectgarbage(mode)
end

local shell = require "spec.support.shell"
local sorted = require "spec.support.sorted"

local function matrix() return torch.ones(7, 9) end
local function list() return torch.ones(40):requires_grad_() end
local function bytes() return torch.io.bytes("\x1f\x8b\8\0\0\0\0\0" .. ("1,2\n\"a\",4\n"):rep(2000)) end

local Sum = torch.class("SumOfSeveral", torch.autograd.Function)
function Sum.forward(ctx, x, y, n)
   ctx:save_for_backward(x, y)
   return x + y, x * n
end
function Sum.backward(ctx, a, b)
   local x, y = ctx:saved_tensors()
   return a * y + b, a * x
end

local Twice = torch.class("Twice", torch.autograd.Function)
function Twice.forward(_, x) return x end
function Twice.backward(_, grad) return grad end

local path = os.tmpname()
teardown(function()
   for _, ending in ipairs {"", ".safetensors", ".npy", ".npz"} do os.remove(path .. ending) end
end)

local Rows = torch.class("SpecRows", torch.data.Dataset)
function Rows:__len() return 6 end
function Rows:get(i) return {self.x, i} end

-- Makes batches from a tensor in all ways that a loader supports.
local function collate(x)
   local set = Rows()
   set.x = x
   for batch in torch.data.DataLoader(set, {batch_size = 3}):iter() do assert(#batch == 2) end
   return torch.data.default_collate {{x, {a = x}}, {x, {a = x}}}
end

local long = {}
for i = 1, 60 do long[i] = torch.ones(9) end

local uses = {
   ["tolist"] = function(x) return x:tolist() end,
   ["tostring"] = tostring,
   ["unary minus"] = function(x) return -x end,
   ["arithmetic"] = function(x) return x + x * 2 end,
   ["shape"] = function(x) return #x.shape + #x:size() + #x:stride() end,
   ["rows"] = function(x) for row in x:iter() do row:sum() end end,
   ["indexing"] = function(x) return x[{1}] + x[torch.tensor {1, 2}]:sum() end,
   ["assigning"] = function(x) x[1] = torch.ones(1) end,
   ["transposing"] = function(x) return x.T, x.mT end,
   ["a list of many tensors"] = function(x) return torch.stack(long):sum() + x end,
   ["conversions"] = function(x) return torch.as_tensor(x), torch.tensor(x), x:new_tensor(1) end,
   ["several results"] = function(x) return x:max(1), x:split(2), x:unbind() end,
   ["apply_"] = function(x) return x:clone():apply_(function(v) return v + 1 end) end,
   ["map_"] = function(x) return x:clone():map_(x, function(a, b) return a + b end) end,
   ["errors"] = function(x) pcall(torch.matmul, x, torch.ones(100)) end,
   ["copy_"] = function(x) return torch.zeros(7, 9):copy_(x), x:copy_(torch.ones(9)) end,
   ["index_put_"] = function(x) return x:index_put_({torch.tensor {1, 2}}, torch.ones(9)) end,
   ["assigning a table"] = function(x) x[{1}] = {1, 2, 3, 4, 5, 6, 7, 8, 9} end,
   ["assigning at positions"] = function(x) x[torch.tensor {1, 2}] = x[{{3, 4}}] end,
   ["a mask"] = function(x) return x[x:gt(0)] end,
   ["printing"] = function(x) return ("%s"):format(x) .. x end,
   ["an element"] = function(x) return x[{1, 1}]:item(), x:sum():item() end,
   ["out"] = function(x) return torch.add(x, 1, {out = x}) end,
   ["einsum"] = function(x) return torch.einsum("ij,kj->ik", x, x) end,
   ["map_ of two"] = function(x) return torch.ones(7, 9):map_(x, function(a, b) return a * b end) end,
   ["saving and loading"] = function(x)
      torch.save({x, {x}}, path .. ".safetensors")
      return torch.load(path .. ".safetensors", {mmap = true})
   end,
   ["NumPy's files"] = function(x)
      torch.save(x, path .. ".npy")
      torch.save({a = x, b = x}, path .. ".npz", {compress = true})
      return torch.load(path .. ".npy"), torch.load(path .. ".npz")
   end,
   ["files and checksums"] = function(x)
      local file = io.open(path, "w+b")
      torch.io.write(file, x)
      file:seek "set"
      local same = torch.io.read(file, {7, 9}, "float32")
      file:close()
      return torch.io.crc32(x), torch.io.deflate("", x), same
   end,
   ["collating"] = collate,
   ["a profile"] = function(x)
      local profile = torch.profiler.profile({record_shapes = true, with_stack = true,
         profile_memory = true}, function() return x + x:sum() end)
      return profile:key_averages()
   end,
   ["vmap"] = function(x) return torch.func.vmap(function(row) return row:sum() * row end)(x) end,
   ["autocast"] = function(x) torch.autocast("cpu", function() return x:matmul(x:t()) end) end,
   ["a scope"] = function(x) return torch.scope(function() return x + 1, x end) end,
   ["apply_ within no_grad"] =
      function(x) return torch.no_grad(function() return x:apply_(function(v) return v end) end) end,
}

local byte_uses = {
   ["csv"] = function(x)
      return torch.io.csv(x, 9, ",", '"', {"string", "float32"}, 4000, 1),
         torch.io.csv_fields(x, 9, ",", '"')
   end,
   ["bytes as elements"] = function(x) return torch.io.bytes_as(x, 9, {100, 3}, "float32") end,
   ["text"] = function(x) return torch.io.text(x, 9, 1000) end,
   ["inflate"] = function(x) return torch.io.inflate(x, "gzip") end,
   ["dequantize"] = function(x) return torch.io.dequantize(x, 1, {2, 256}, "Q8_0") end,
   ["decode_image"] = function(x) return torch.io.decode_image(x) end,
   ["string"] = function(x) return torch.distributed._string(x) end,
}

local graphs = {
   ["backward"] = function(x) (x * 2):sum():backward() end,
   ["grad"] = function(x)
      local y = (x * x):sum()
      return torch.autograd.grad({y, y * 2}, {x, x}, {retain_graph = true})
   end,
   ["hooks"] = function(x)
      x:register_hook(function(g) return g * 2 end);
      (x * 2):sum():backward()
   end,
   ["grad_fn"] = function(x) return (x * 2).grad_fn.next_functions, x.grad, x.grad_fn end,
   ["functions"] = function(x) return Twice:apply(x):sum():backward() end,
   ["tostring"] = function(x) return tostring(x * 2) end,
   ["functions of several"] = function(x)
      local a, b = Sum:apply(x, x * 2, 3)
      return (a:sum() + b:sum()):backward()
   end,
   ["saved tensors hooks"] = function(x)
      local y = torch.autograd.graph.saved_tensors_hooks(function(t) return {t:clone()} end,
         function(kept) return kept[1] end, function() return (x * x):exp():sum() end)
      return y:backward()
   end,
   ["a picture"] = function(x) return torch.autograd.graph.dot((x * 2):sum(), {x = x}) end,
   ["checkpoint"] = function(x) return torch.utils.checkpoint(function(t) return t * t end, x):sum():backward() end,
   ["optimizers"] = function(x)
      (x * x):sum():backward()
      torch.optim.SGD({x}, {lr = 0.1, momentum = 0.9}):step()
      torch.optim.Adam({x}, {lr = 0.1}):step()
   end,
   ["accumulating hooks"] = function(x)
      x:register_post_accumulate_grad_hook(function(t) t.grad = nil end);
      (x * 2):sum():backward()
   end,
   ["jacobians"] = function(x) return torch.func.jacrev(function(t) return t * 2 end)(x) end,
}

local function trying(fn) return function(x) pcall(fn, x) end end

local disturbances = {
   ["is released"] = function(x) x:release() end,
   ["gets other data"] = trying(function(x) x.data = torch.ones(1) end),
   ["gets another dtype"] = trying(function(x) x.data = torch.ones(1, 1):to "uint8" end),
   ["is turned"] = trying(function(x) x:t_() end),
   ["becomes smaller"] = trying(function(x) x:requires_grad_(false):resize_(1) end),
   ["requires a gradient or not"] = trying(function(x) x:requires_grad_(not x.requires_grad) end),
}

for what, disturb in sorted(disturbances) do
   describe("a tensor that " .. what .. " in a finalizer", function()
      for name, fn in sorted(uses) do
         it("during " .. name, function() under_fire(matrix, fn, disturb, not long_calls[name] and many) end)
      end
      for name, fn in sorted(graphs) do
         it("of a graph during " .. name, function() under_fire(list, fn, disturb, not long_calls[name] and many) end)
      end
      for name, fn in sorted(byte_uses) do
         it("of bytes during " .. name, function() under_fire(bytes, fn, disturb) end)
      end
   end)
end

it("a collection for lack of memory keeps the operator's inputs", function()
   local x = torch.ones(1000)
   setmetatable({}, {__gc = function() x:release() end})
   torch.set_memory_limit(torch.memory_stats().used + 100000)
   local ok, message = pcall(function() return x:expand(1000, 1000):exp() end)
   torch.set_memory_limit(0)
   assert.is_false(ok)
   assert.matches("out of memory", message)
   collectgarbage()
   collectgarbage()
   assert.equal("tensor(released)", tostring(x))
end)

it("a collection for lack of memory leaves the stream of random numbers as it is", function()
   local x = torch.ones(300000)
   local function draw(room)
      torch.manual_seed(3)
      torch.ones(300000) -- this tensor is garbage, and the result of dropout needs its memory
      if room then torch.set_memory_limit(torch.memory_stats().used + room) end
      local fine, result = pcall(torch.nn.functional.dropout, x, 0.5, true)
      torch.set_memory_limit(0)
      assert.is_true(fine)
      return {result:sum():item(), torch.rand(2):tolist()}
   end
   collectgarbage()
   collectgarbage "stop"
   local fine, expected, got = pcall(function() return draw(nil), draw(100000) end)
   collectgarbage "restart"
   assert.is_true(fine, tostring(expected))
   assert.same(expected, got)
end)

describe("a collection during an operator", function()
   -- Calls fn while there is no memory for its results. Returns the results of pcall.
   local function without_memory(fn, finalizer)
      setmetatable({}, {__gc = finalizer})
      torch.set_memory_limit(torch.memory_stats().used + 100000)
      local ok, result = pcall(fn)
      torch.set_memory_limit(0)
      return ok, result
   end

   it("does not let a finalizer replace the memory of the operator's inputs", function()
      local x = torch.ones(200000)
      local last = torch.full({100000}, 200000, {dtype = "int64"})
      local refusals = {}
      local function refuse(fn) refusals[#refusals + 1] = select(2, pcall(fn)) end
      local ok, result = without_memory(function() return x[last] end, function()
         refuse(function() x.data = torch.ones(1) end)
         refuse(function() x:resize_(1) end)
         refuse(function() x:unsqueeze_(1) end)
      end)
      if ok then assert.equal(100000, result:sum():item()) end
      assert.equal(3, #refusals)
      for _, message in ipairs(refusals) do assert.matches("an operator has called in its midst", message) end
      x.data = torch.ones(1) -- now no operator is running, so the assignment succeeds
      assert.same({1}, x:tolist())
   end)

   it("does not let a scope that ends in a finalizer release the operator's inputs", function()
      local x
      local scope = coroutine.wrap(function()
         torch.scope(function()
            x = torch.ones(1000)
            coroutine.yield()
         end)
      end)
      scope()
      local ok, message = without_memory(function() return x:expand(1000, 1000):exp() end, scope)
      assert.is_false(ok)
      assert.matches("out of memory", message)
      assert.equal("tensor(released)", tostring(x))
   end)
end)

describe("an object that a finalizer closes", function()
   it("may be a pool of workers while a job is sent or awaited", function()
      local function start() return torch.workers.start("spec", 1, "tlua.data.worker") end
      local function stop(pool) pool:stop() end
      under_fire(start, function(pool) pool:send(0, 1, {{}, {}, {{}, {}}}) end, stop)
      under_fire(start, function(pool) pool:take(0.001) end, stop)
   end)

   it("may be the store while it creates a group", function()
      under_fire(function() return torch.distributed._store("127.0.0.1", 0, 5, true) end,
         function(store)
            local name = ("g"):rep(40)
            torch.distributed._join(store, name .. 1, 0, 1, {0}, 5, false, "shm"):leave()
         end, function(store) store:close() end)
   end)
end)

it("a closing state refuses objects that are already finalized", function()
   local folder = os.tmpname()
   shell.write(folder, [[
         local torch = require "tlua"
         local late = setmetatable({}, {__gc = function(self)
            for _, fn in ipairs(self) do print(select(2, pcall(fn))) end
         end})
         local node = (torch.ones(3):requires_grad_() * 2).grad_fn
         local session = torch._profile_start {}
         late[1] = function() return node.name end
         late[2] = function() return node.next_functions end
         late[3] = function() return tostring(node) end
         late[4] = function() return session:state() end
         late[5] = function() return session:event(1) end
      ]])
   local output, status = shell.run(shell.start() .. " " .. shell.quote(folder))
   os.remove(folder)
   assert.equal(0, status, output)
   local _, nodes = output:gsub("the node was finalized: the Lua state is closing", "")
   local _, sessions = output:gsub("the session was finalized: the Lua state is closing", "")
   assert.same({3, 2}, {nodes, sessions})
end)

it("the message of a refused call is the call's own, although a finalizer calls the library meanwhile", function()
   local x = torch.ones(3)
   local function disturb()
      pcall(torch.zeros, "finalizer")
      pcall(x.view, x, 7, 7)
   end
   for message, call in pairs {
      ["sum: self is missing"] = function() torch.sum() end,
      ["topk: k is missing"] = function() x:topk() end,
      ["split: "] = function() x:split() end,
      ["sum: keepdim: expected"] = function() x:sum(1, "odd") end,
      ["matmul: other is missing"] = function() x:matmul() end,
      ["sort: "] = function() x:sort({odd = 1}) end,
      ["zeros: "] = function() torch.zeros({3}, {dtype = "odd"}) end,
   } do
      under_fire(function() return x end, function()
         local ok, got = pcall(call)
         assert.is_false(ok)
         assert.matches(message, got, 1, true)
      end, disturb)
   end
end)
