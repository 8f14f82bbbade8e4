-- Tests Torch7's packages threads and tds under `tlua --torch7`, and how values are packed for other interpreters.

local shell = require "spec.support.shell"
local torch = require "torch7"
local nn = require "tlua.torch7.nn"
local tds = require "tlua.torch7.tds"
local values = require "tlua.torch7.thread_values"

local function run(script) return shell.ok(("%s --torch7 -e %s"):format(shell.tlua, shell.quote(script))) end

describe("Torch7's threads", function()
   it("run jobs with upvalues and arguments, and their ends in the calling thread", function()
      assert.equal("20 jobs, sum of squares 2870\n3 threads\n", run [[
         local threads = require "threads"
         local text = "from the first thread"
         local pool = threads.Threads(3, function(id) greeting, own = text, id end)
         local jobs, sum, seen = 0, 0, {}
         for i = 1, 20 do
            pool:addjob(function(factor)
               assert(greeting == text and own == __threadid)
               return __threadid, i * factor
            end, function(id, square)
               jobs, sum, seen[id] = jobs + 1, sum + square, true
            end, i)
         end
         pool:synchronize()
         print(("%d jobs, sum of squares %d"):format(jobs, sum))
         local n = 0
         for _ in pairs(seen) do n = n + 1 end
         assert(n >= 1 and n <= 3 and not pool:hasjob())
         print(pool.N .. " threads")
         pool:terminate()]])
   end)

   it("have random numbers of their own, and share an AtomicCounter also if tensors are copied", function()
      assert.equal("true\t10\n", run [[
         local threads, tds = require "threads", require "tds"
         local pool, list, counter = threads.Threads(2), {torch.uniform()}, tds.AtomicCounter()
         pool:specific(true)
         for id = 1, 2 do
            pool:addjob(id, function()
               for _ = 1, 5 do counter:inc() end
               return torch.uniform()
            end, function(value) table.insert(list, value) end)
         end
         pool:synchronize()
         pool:terminate()
         print(list[1] ~= list[2] and list[2] ~= list[3] and list[1] ~= list[3], counter:get())
         counter:free()]])
   end)

   it("start without a function to initialize them", function()
      assert.equal("1\n", run [[
         local pool = require "threads".Threads(1, nil)
         print(pool.N)
         pool:terminate()]])
   end)

   it("do not count a job that cannot be sent, or a wait without a held lock", function()
      assert.equal("threads.Threads:addjob: field 'value' of field [2] is a coroutine, which cannot travel to another "
         .. "thread\ntrue\ndone\n", run [[
         local threads = require "threads"
         local pool = threads.Threads(1)
         local good, problem = pcall(pool.addjob, pool, function() end, nil, coroutine.create(print))
         print((problem:gsub("^.-: ", "", 1)))
         print(not pool:hasjob())
         pool:synchronize() -- waits for no job
         pool:terminate()
         print "done"]])
      assert.equal("threads.Condition:wait: mutex: expected a threads.Mutex, got nil\n"
         .. "threads.Condition:wait: the lock is not held\nthreads.safe: mutex: expected a threads.Mutex, got number\n"
         .. "threads.Threads: f1: expected a function, got nil\n", run [[
         local threads = require "threads"
         local condition, mutex = threads.Condition(), threads.Mutex()
         local function show(...) print((select(2, pcall(...)):gsub("^.-: ", "", 1))) end
         show(condition.wait, condition)
         show(condition.wait, condition, mutex)
         show(threads.safe, print, 5)
         show(threads.Threads, 1, nil, function() end)
         condition:free()
         mutex:free()]])
      assert.raises("tds.Vec:concat: i: expected a position, got x", function() tds.Vec(1):concat(",", "x") end)
   end)

   it("leave an AtomicCounter and a Vec unchanged if an argument is wrong", function()
      local counter, vec = tds.AtomicCounter(), tds.Vec(1, 2, 3)
      assert.raises('tds.AtomicCounter:inc: value: expected an integer, got "a"', function() counter:inc "a" end)
      assert.raises("tds.AtomicCounter:set: value: expected an integer, got nil", function() counter:set() end)
      assert.equal(1, counter:inc()) -- the mutex is not locked
      counter:free()
      assert.is_false((pcall(vec.insert, vec, 1, print)))
      assert.equal("1,2,3", vec:concat ",")
   end)

   it("get copies of tensors and models, and return results", function()
      assert.equal("0\ttrue\ttorch.FloatTensor\tnn.Tanh\n", run [[
         local threads = require "threads"
         torch.setdefaulttensortype "torch.FloatTensor"
         local pool = threads.Threads(2)
         local model, x = nn.Sequential():add(nn.Linear(3, 2)):add(nn.Tanh()), torch.randn(4, 3)
         local expected = model:forward(x):clone()
         pool:addjob(function()
            local y = model:forward(x)
            x:zero()
            return y, model:get(2)
         end, function(y, layer)
            print(("%g"):format((y - expected):abs():max()), x:sum() ~= 0, y:type(), torch.type(layer))
         end)
         pool:synchronize()
         pool:terminate()]])
   end)

   it("raise errors of jobs, of their ends and of the first functions", function()
      local out = run [[
         local threads = require "threads"
         local pool = threads.Threads(2)
         pool:addjob(function() error("one", 0) end)
         pool:addjob(function() return 2 end, function(n) print("still", n) end)
         print(select(2, pcall(pool.synchronize, pool)))
         print(pool:haserror())
         pool:addjob(function() end, function() error("two", 0) end)
         print(select(2, pcall(pool.dojob, pool)))
         print(select(2, pcall(pool.dojob, pool)))
         print(select(2, pcall(pool.addjob, pool, 3)))
         pool:terminate()
         print(select(2, pcall(pool.addjob, pool, function() end)))
         print(select(2, pcall(threads.Threads, 2, function() error("three", 0) end)))
         print(select(2, pcall(threads.Threads, 0)))]]
      for _, text in ipairs {"[thread %d callback] one", "still\t2", "true", "[thread %d endcallback] two",
         "dojob: there is no job to wait for", "addjob: callback: expected a function, got number",
         "addjob: the pool was terminated", "thread %d: three", "N: expected a count of threads, got 0"} do
         assert.matches(text:gsub("[%[%]]", "%%%0"), out)
      end
   end)

   it("take a thread's number in specific mode", function()
      assert.equal("1 1\n2 2\n3 3\ntrue\nfalse\n", run [[
         local pool = require "threads"(3)
         pool:specific(true)
         local lines = {}
         for i = 1, 3 do
            pool:addjob(i, function() return __threadid end, function(id) lines[i] = i .. " " .. id end)
         end
         pool:synchronize()
         print(table.concat(lines, "\n"))
         print(pool:acceptsjob(2))
         print((pcall(pool.addjob, pool, 4, function() end)))
         pool:terminate()]])
   end)

   it("share memory, locks, conditions and counters on request", function()
      assert.equal("60\t60\nwoken\t1\n", run [[
         local threads, tds = require "threads", require "tds"
         threads.Threads.serialization "threads.sharedserialize"
         local pool = threads.Threads(3)
         local counter, mutex, sum = tds.AtomicCounter(), threads.Mutex(), torch.zeros(1)
         local id = mutex:id()
         for _ = 1, 6 do
            pool:addjob(function()
               local lock = require "threads".Mutex(id)
               for _ = 1, 10 do
                  counter:inc()
                  lock:lock()
                  sum[1] = sum[1] + 1
                  lock:unlock()
               end
            end)
         end
         pool:synchronize()
         print(counter:get(), math.tointeger(sum[1]))
         local condition, flag = threads.Condition(), torch.LongTensor {0}
         pool:addjob(function()
            mutex:lock()
            while flag[1] == 0 do condition:wait(mutex) end
            mutex:unlock()
            return flag[1]
         end, function(value) print("woken", value) end)
         mutex:lock()
         flag[1] = 1
         condition:signal()
         mutex:unlock()
         pool:synchronize()
         pool:terminate()
         for _, object in ipairs {counter, mutex, condition} do object:free() end
         assert(not pcall(mutex.unlock, mutex))
         assert(threads.safe(function(a, b) return a + b end)(1, 2) == 3)]])
   end)

   it("run code in a single thread", function()
      assert.equal("done\nfalse\n", run [[
         local threads = require "threads"
         threads.Thread "assert(1 + 1 == 2)":free()
         print "done"
         print((pcall(function() threads.Thread "error 'bad'":free() end)))]])
   end)
end)

describe("packed values", function()
   local function again(...) return values.unpack(values.pack(false, ...)) end

   it("keep shared parts, cycles, upvalues and memory", function()
      local list = {1, nil, 3, inner = {}}
      list.self, list.other = list, list.inner
      local made = again(list)
      assert.equal(made, made.self)
      assert.equal(made.inner, made.other)
      assert.is_nil(made[2])
      local n = 0
      local function add() n = n + 1 return n end
      local function get() return n end
      local add2, get2 = again(add, get)
      add2()
      assert.equal(1, get2())
      assert.equal(0, get())
      local x = torch.randn(2, 3)
      local y, row = again(x, x[2])
      row:zero()
      assert.equal(0.0, y[2]:sum())
      assert.is_true(x[2]:sum() ~= 0)
      assert.same({nil, 2, n = 2}, table.pack(again(nil, 2)))
   end)

   it("send classes and functions of packages by name", function()
      local class, fn, layer = again(nn.Linear, math.sin, nn.Linear(2, 1))
      assert.equal(nn.Linear, class)
      assert.equal(math.sin, fn)
      assert.equal("nn.Linear", torch.type(layer))
      assert.equal(torch, (again(torch)))
   end)
end)

describe("Torch7's tds", function()
   it("has hashes", function()
      local hash = tds.Hash {x = 1, list = {4, 5}}
      hash[3] = "three"
      assert.equal(3, #hash)
      assert.equal("three", hash[3.0])
      assert.equal(5, hash.list[2])
      assert.equal("tds.Vec", torch.type(hash.list))
      hash.x = nil
      assert.equal(2, #hash)
      local n = 0
      for _ in pairs(hash) do n = n + 1 end
      assert.equal(2, n)
      assert.equal("tds.Hash[1]{\n    a : 1\n}", tostring(tds.Hash {a = 1}))
      assert.raises("tds.Hash: expected a number, string", function() hash.f = print end)
   end)

   it("has vectors", function()
      local vec = tds.Vec(4, 5, nil, "end")
      assert.equal(4, #vec)
      assert.equal("tds.Vec[4]{\n    1 : 4\n    2 : 5\n    3 : nil\n    4 : end\n}", tostring(vec))
      assert.equal(tostring(vec), tostring(torch.deserialize(torch.serialize(vec))))
      vec:remove(3)
      vec:insert(1, 9)
      vec:insert(7)
      assert.equal("9,4,5,end,7", vec:concat ",")
      vec:remove()
      vec:resize(3)
      vec:sort(function(a, b) return a < b end)
      assert.equal("4 5 9", vec:concat " ")
      vec[5] = 1
      assert.equal(5, #vec)
      assert.is_nil(vec[4])
      local seen = {}
      for i, value in pairs(tds.Vec {6, 7}) do seen[i] = value end
      assert.same({6, 7}, seen)
      assert.equal("4-5", vec:concatstorage("-", 1, 2):string())
      assert.raises("expected a position from 1", function() vec[0] = 1 end)
   end)
end)
