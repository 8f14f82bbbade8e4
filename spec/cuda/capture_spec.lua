-- Tests captures of CUDA graphs. A global capture forbids most driver calls in every thread, but whatever a script does
-- during a capture must still work, and the graph must be complete. The emulator invalidates the capture at each call
-- that is not in the list of allowed calls in spec/cuda/captures.cc.

local torch = require "tlua"
local sorted = require "spec.support.sorted"
local shell = require "spec.support.shell"
local two_devices <const> = require("tlua").cuda.device_count() > 1 and it or pending
local emulated <const> = require("spec.support.device").is_emulated() and it or pending
local cuda = torch.cuda
local on <const> = {device = "cuda"}

-- Captures a function and calls `work` in the middle of the capture. The graph must still give the function's result.
local function beside(work)
   local x, g = torch.ones(100, on), cuda.Graph()
   local y = cuda.graph(g, function()
      local half = x * 2
      work()
      return half:sum() + 1
   end)
   g:replay()
   assert.equal(201, y:item())
end

-- Calls `make` and collects garbage until the finalizers of its results have run.
local function collect()
   collectgarbage()
   collectgarbage()
end

describe("while a graph is captured", function()
   local function old_graph()
      local g, x = cuda.Graph(), torch.ones(4, on)
      cuda.graph(g, function() return x + 1 end)
      return g
   end

   local function recorded(options)
      local e = cuda.Event(options)
      e:record()
      return e
   end

   local cases = {
      ["another graph can be reset"] = function()
         local g = old_graph()
         return function() g:reset() end
      end,
      ["another graph can be collected"] = function()
         local kept = {old_graph()} -- luacheck: ignore
         return function()
            kept[1] = nil
            collect()
         end
      end,
      ["an event recorded before can be asked"] = function()
         local e = recorded()
         return function() e:query() end
      end,
      ["the time between two events can be read"] = function()
         local first, last = recorded {enable_timing = true}, recorded {enable_timing = true}
         last:synchronize()
         return function() assert.is_true(first:elapsed_time(last) >= 0) end
      end,
      ["another stream can be asked and waited for"] = function()
         local s = cuda.Stream()
         local x = torch.ones(4, on)
         s:wait_stream(cuda.current_stream())
         cuda.stream(s, function() x:add_(1) end)
         return function()
            s:query()
            s:synchronize()
         end
      end,
      ["streams can be made"] = function()
         return function()
            for _ = 1, 30 do cuda.Stream {priority = -1} end
         end
      end,
      ["large tensors can be allocated, which maps memory"] =
         function() return function() return torch.empty(40 << 20, {device = "cuda", dtype = torch.uint8}) end end,
      ["the free memory can be read"] = function() return cuda.mem_get_info end,
      ["pinned memory can be allocated and freed"] = function()
         return function()
            local pinned = torch.ones(3 << 20, {device = "cpu"}):pin_memory()
            pinned:release()
            cuda.empty_host_cache()
         end
      end,
      ["a copy to another stream's device can be made and waited for"] = function()
         local x, s = torch.ones(4, {device = "cuda:1"}), cuda.Stream {device = 1}
         return function()
            cuda.stream(s, function() assert.equal(4, x:sum():item()) end)
            cuda.synchronize(1)
         end
      end,
      ["another device's event can be waited for"] = function()
         local e = cuda.device(1, recorded)
         return function() e:synchronize() end
      end,
      ["another device's memory can be given back"] = function()
         local x = torch.ones(40 << 20, {device = "cuda:1", dtype = torch.uint8})
         return function()
            x:release()
            cuda.device(1, cuda.empty_cache)
         end
      end,
      ["another device's streams can be asked whether they still use memory"] = function()
         local x, s = torch.ones(1 << 20, {device = "cuda:1"}), cuda.Stream {device = 1}
         s:wait_stream(cuda.current_stream(1))
         cuda.stream(s, function() x:add_(1) end)
         x:record_stream(s)
         return function()
            x:release()
            return torch.zeros(1 << 20, {device = "cuda:1"})
         end
      end,
      ["another device's fault in the data can be told"] = function()
         local x, bad = torch.ones(3, {device = "cuda:1"}), torch.tensor({9}, {device = "cuda:1"})
         return function()
            x:index_select(1, bad)
            assert.raises("position 9 is out of range", function() cuda.synchronize(1) end)
         end
      end,
      ["another graph can be captured, on another stream"] = function()
         local s = cuda.Stream()
         local x = torch.ones(4, on)
         return function()
            local g = cuda.Graph()
            cuda.stream(s, function()
               g:capture_begin()
               x:mul_(3)
               g:capture_end()
            end)
         end
      end,
   }

   for name, prepare in sorted(cases) do
      local test = (name:find "^another device" or name:find "another stream's device") and two_devices or it
      test(name, function() beside(prepare()) end)
   end

   two_devices("another device can be opened", function()
      assert.equal("9\n", shell.ok(shell.start() .. " -e " .. shell.quote [[
         local g, x = torch.cuda.Graph(), torch.ones(4, {device = "cuda"})
         local y = torch.cuda.graph(g, function()
            local half = x * 2
            torch.zeros(4, {device = "cuda:1"})
            return half:sum() + 1
         end)
         g:replay()
         print(math.tointeger(y:item()))]]))
   end)
end)

describe("a captured graph", function()
   emulated("keeps the priorities of the streams that it was captured on", function()
      -- the two streams write without order, but the emulator runs the stream of higher priority first
      assert.equal("true\n", shell.ok("TLUA_EMULATED_LAZY=1 " .. shell.start() .. " -e " .. shell.quote [[
         local cuda = torch.cuda
         local x, g = torch.zeros(4, {device = "cuda"}), cuda.Graph()
         local low, high = cuda.Stream(), cuda.Stream {priority = -1}
         cuda.graph(g, function()
            for value, s in ipairs {low, high} do
               s:wait_stream(cuda.current_stream())
               cuda.stream(s, function() x:fill_(value) end)
            end
            for _, s in ipairs {low, high} do cuda.current_stream():wait_stream(s) end
         end)
         local always = true
         for _ = 1, 30 do
            g:replay()
            always = always and x[1]:item() == 1
         end
         print(always)]]))
   end)
end)
