-- Tests torch.cuda.memory: snapshots of a device's memory in PyTorch's format, which contain the source lines of the
-- allocations.

local torch = require "tlua"
local shell = require "spec.support.shell"
local device = require "spec.support.device"
local pickle = require "tlua.io.pickle_writer"
local json = require "tlua.utils.json"
local kind = device.name or "sim"
local module = torch[kind]
local memory = module.memory

local MIB = 1 << 20

local function settle()
   collectgarbage()
   collectgarbage()
   module.synchronize()
   module.empty_cache()
end

-- Returns the block that is at an address in a snapshot.
local function block_at(snapshot, address)
   for _, segment in ipairs(snapshot.segments) do
      for _, block in ipairs(segment.blocks) do
         if block.address == address then return block, segment end
      end
   end
end

describe("a snapshot of a device's memory", function()
   before_each(settle)
   after_each(function() memory._record_memory_history(false, {clear_history = true}) end)

   it("has segments without holes, and the module's statistics", function()
      local x = torch.ones(3 * MIB, {device = kind})
      local y = torch.ones(1000, {device = kind})
      local active, reserved = 0, 0
      for _, segment in ipairs(module.memory_snapshot()) do
         local at = segment.address
         for _, block in ipairs(segment.blocks) do
            assert.equal(at, block.address)
            at = at + block.size
            if block.state == "active_allocated" then active = active + block.size end
         end
         assert.equal(segment.address + segment.total_size, at)
         reserved = reserved + segment.total_size
      end
      assert.equal(module.memory_allocated(), active)
      assert.equal(module.memory_reserved(), reserved)
      local block, segment = block_at(memory._snapshot(), x:data_ptr())
      assert.same({"active_allocated", 12 * MIB, "large", 0},
         {block.state, block.requested_size, segment.segment_type, segment.device})
      assert.equal("small", select(2, block_at(memory._snapshot(), y:data_ptr())).segment_type)
   end)

   it("names the operator and the line that allocated a block", function()
      memory._record_memory_history()
      local function make() return torch.ones(5000, {device = kind}) end
      local x = make()
      local block = block_at(memory._snapshot(), x:data_ptr())
      assert.equal("ones", block.frames[1].name)
      assert.matches("snapshot_spec%.lua$", block.frames[2].filename)
      assert.equal(debug.getinfo(make, "S").linedefined, block.frames[2].line)
   end)

   it("lists events in order", function()
      memory._record_memory_history("all", {clear_history = true})
      local x = torch.ones(5000, {device = kind})
      local address = x:data_ptr()
      x:release()
      module.synchronize()
      local actions = {}
      for _, event in ipairs(memory._snapshot().device_traces[1]) do
         if event.addr == address and not event.action:find "^segment" then
            actions[#actions + 1] = event.action
            assert.equal(20480, event.size) -- allocations are rounded up to multiples of 512 bytes
            if event.action == "alloc" then assert.equal("ones", event.frames[1].name) end
         end
      end
      assert.same({"alloc", "free_requested", "free_completed"}, actions)
   end)

   it("keeps at most the given number of events, and none for \"state\"", function()
      memory._record_memory_history("all", {max_entries = 3, clear_history = true})
      for _ = 1, 5 do torch.ones(10, {device = kind}):release() end
      assert.equal(3, #memory._snapshot().device_traces[1])
      memory._record_memory_history("state", {clear_history = true})
      local x = torch.ones(10, {device = kind})
      local snapshot = memory._snapshot()
      assert.equal(0, #snapshot.device_traces[1])
      assert.equal("ones", block_at(snapshot, x:data_ptr()).frames[1].name)
   end)

   it("refuses unknown arguments", function()
      assert.raises(kind .. ".memory._record_memory_history: enabled: expected " ..
         '"all", "state", true or false, got "some"',
         function() memory._record_memory_history("some") end)
      assert.raises(kind .. ".memory._record_memory_history: context: expected " ..
         '"all", "alloc", "state" or false, got "free"',
         function() memory._record_memory_history("all", {context = "free"}) end)
      assert.raises(kind .. ".memory._dump_snapshot: filename: expected the name of a file, got 3",
         function() memory._dump_snapshot(3) end)
      assert.raises(kind .. ".memory._dump_snapshot: /nowhere/x.pickle",
         function() memory._dump_snapshot "/nowhere/x.pickle" end)
   end)

   it("is written as a pickle that our own reader accepts as well", shell.in_folder(function(folder)
      local path = folder .. "/snapshot.pickle"
      memory._record_memory_history()
      local x = torch.ones(5000, {device = kind})
      memory._dump_snapshot(path)
      local bytes = shell.read(path)
      assert.equal("\x80\2}", bytes:sub(1, 3))
      assert.equal(".", bytes:sub(-1))
      assert.truthy(bytes:find("segment_pool_id", 1, true))
      assert.equal(x:numel(), 5000)
   end))
end)

-- The expected bytes were written by hand, following the description of opcodes in Python's pickletools.
describe("a pickle", function()
   it("has the opcodes of protocol 2", function()
      local function body(value) return pickle.encode(value):sub(3, -2) end
      assert.equal("J\5\0\0\0", body(5))
      assert.equal("J\xff\xff\xff\xff", body(-1))
      assert.equal("\x8a\8\0\0\0\0\1\0\0\0", body(1 << 32))
      assert.equal("\x88", body(true))
      assert.equal("G\x3f\xf8\0\0\0\0\0\0", body(1.5))
      assert.equal("X\2\0\0\0abq\0", body "ab")
      assert.equal("]q\0(J\1\0\0\0J\2\0\0\0e", body(json.as_array {1, 2}))
      assert.equal("]q\0(e", body(json.as_array {}))
      assert.equal("(J\1\0\0\0tq\0", body(setmetatable({1}, pickle.tuple)))
      assert.equal("}q\0(X\1\0\0\0aq\1\x89X\1\0\0\0bq\2\x89u", body {a = false, b = false})
   end)

   it("memoizes duplicates", function()
      assert.equal("\x80\2]q\0(X\1\0\0\0aq\1h\1e.", pickle.encode(json.as_array {"a", "a"}))
      local inner = json.as_array {}
      assert.equal("\x80\2]q\0(]q\1(eh\1e.", pickle.encode(json.as_array {inner, inner}))
   end)
end)

describe("names of PyTorch's", function()
   it("are aliases of the present names", function()
      assert.equal(module.memory_reserved(), module.memory_cached())
      assert.equal(module.max_memory_reserved(), memory.max_memory_cached())
      assert.equal("native", module.get_allocator_backend())
      assert.equal(module.memory_stats().num_ooms, module.memory_stats_as_nested_dict().num_ooms)
      assert.equal(module.memory_stats()["allocated_bytes.all.peak"],
         memory.memory_stats_as_nested_dict().allocated_bytes.all.peak)
      assert.equal(module.memory_summary(), memory.memory_summary())
      assert.equal(module.initial_seed(), module.random.initial_seed())
      assert.is_nil(module.ipc_collect())
   end)

   local two_devices <const> = torch[kind].device_count() > 1 and it or pending
   two_devices("make a tensor's device current", function()
      local x = torch.ones(2, {device = kind .. ":1"})
      assert.equal(1, module.device_of(x, module.current_device))
      assert.equal(0, module.device_of(torch.ones(2, {device = "cpu"}), module.current_device))
      assert.raises(kind .. ".device_of: tensor: expected a tensor, got 1", function() module.device_of(1) end)
   end)
end)
