-- Tests random programs on two devices with two streams each. Only events and waits between streams order the work, and
-- the results must equal the CPU's bit for bit. A second test omits the waits: then some results must differ, because
-- the simulated device runs work as late as possible.
--
--   TLUA_SIM_PROGRAMS=10000 TLUA_SIM_SEEDS=20 make test SPEC=spec/device/random_programs_spec.lua
--
-- runs 10000 programs (500 by default), each with 20 seeds of the device (1 by default). The first program has the
-- number TLUA_SIM_FIRST (1).

local numbers = require "spec.support.numbers"
local torch = require "tlua"
local sim = torch.sim

local PROGRAMS = tonumber(os.getenv "TLUA_SIM_PROGRAMS") or 500
local SEEDS = tonumber(os.getenv "TLUA_SIM_SEEDS") or 1
local FIRST = tonumber(os.getenv "TLUA_SIM_FIRST") or 1
local SLOTS, STEPS = 5, 25

-- Functions that make a tensor from two tensors; all values stay finite.
local OPERATORS = {
   function(a, b) return (a + b):clamp(-9, 9) end,
   function(a, b) return (a * b):clamp(-9, 9) end,
   function(a, b) return (a - b:mean()):relu() end,
   function(a, b) return a:view(4, 4):matmul(b:view(4, 4)):clamp(-9, 9):view(16) end,
   function(a, b) return a:flip(1) - b:cumsum(1):clamp(-9, 9) end,
   function(a, b) return (torch.where(a:gt(b), a, b * 0.5)) end,
   function(a, b) return (a:sort()) + b:tanh() end,
   function(a, b) return torch.cat {a:narrow(1, 1, 8), b:narrow(1, 9, 8)} end,
}

-- In-place versions of the functions in OPERATORS, which change a tensor instead of making a new one.
local CHANGES = {
   function(a, b) a:add_(b):clamp_(-9, 9) end,
   function(a, b) a:mul_(b):clamp_(-9, 9) end,
   function(a, b) a:copy_(b:flip(1)) end,
   function(a) a:narrow(1, 3, 5):fill_(1.25) end,
}

-- Returns the steps of program `number`. The tensors of a program are in numbered slots. A step makes a new tensor in
-- slot `to` by `operator`, or changes the tensor in that slot by `change`. It reads the tensors in the slots `from`,
-- and runs on one of the streams 1 to 4. If `event` is true, waits before the step use an event.
local function program(number)
   local draw, steps = numbers(number), {}
   for i = 1, STEPS do
      steps[i] = {stream = draw(4), from = {draw(SLOTS), draw(SLOTS)}, to = draw(SLOTS), event = draw(2) == 1}
      if draw(3) == 1 then
         steps[i].change = CHANGES[draw(#CHANGES)]
      else
         steps[i].operator = OPERATORS[draw(#OPERATORS)]
      end
   end
   return steps
end

local function first_values(slot)
   return torch.arange(16, {dtype = "float32", device = "cpu"}) * (slot * 0.125) - slot
end

local function on_cpu(steps)
   local slots = {}
   for i = 1, SLOTS do slots[i] = first_values(i) end
   for _, step in ipairs(steps) do
      local a, b = slots[step.from[1]], slots[step.from[2]]
      if step.operator then
         slots[step.to] = step.operator(a, b)
      else
         step.change(slots[step.to], b:clone())
      end
   end
   return slots
end

-- Runs a program on the devices. A slot records which stream wrote it last, and which streams have read it since then.
-- If `careless` is true, all waits between streams are omitted.
local function on_devices(steps, careless)
   local streams, slots = {}, {}
   for i = 1, 4 do streams[i] = sim.Stream {device = (i - 1) // 2} end

   local function wait(stream, other, by_event)
      if other == stream or careless then return end
      if by_event then
         stream:wait_event(other:record_event())
      else
         stream:wait_stream(other)
      end
   end

   -- Inserts the waits that a stream needs before reading or writing a slot's tensor.
   local function before(slot, stream, writes, by_event)
      wait(stream, slot.writer, by_event)
      if writes then
         for reader in pairs(slot.readers) do wait(stream, reader, by_event) end
         slot.writer, slot.readers = stream, {}
      else
         slot.readers[stream] = true
      end
      if not careless then slot.tensor:record_stream(stream) end
   end

   -- Returns a slot's tensor for work on a stream. If the tensor is on another device than the stream, returns a copy
   -- on the stream's device. The slot's sender, a stream of the tensor's device, makes the copy.
   local function read(slot, stream, by_event)
      if slot.tensor.device == stream.device then
         before(slot, stream, false, by_event)
         return slot.tensor
      end
      local sender = slot.sender
      before(slot, sender, false, by_event)
      return sim.stream(sender, sim.stream, stream, function() return slot.tensor:to(stream.device) end)
   end

   for i = 1, SLOTS do
      local stream = streams[(i - 1) % 4 + 1]
      slots[i] = {tensor = sim.stream(stream, function() return first_values(i):to(stream.device) end),
                  writer = stream, readers = {}, sender = streams[(i - 1) % 4 // 2 * 2 + 1]}
   end
   for _, step in ipairs(steps) do
      local from, to, by_event = step.from, slots[step.to], step.event
      if step.operator then
         local stream = streams[step.stream]
         local a, b = read(slots[from[1]], stream, by_event), read(slots[from[2]], stream, by_event)
         slots[step.to] = {tensor = sim.stream(stream, function() return step.operator(a, b) end),
                           writer = stream, readers = {},
                           sender = streams[(step.stream - 1) // 2 * 2 + 1]}
         to.tensor:release() -- released immediately, so that the device may use the memory again
      else
         -- the step runs on one of the two streams of the tensor's device
         local stream = streams[(step.stream - 1) % 2 + 1 + (to.tensor.device == torch.device "sim:1" and 2 or 0)]
         local b = sim.stream(stream, function()
            local value = read(slots[from[2]], stream, by_event)
            return value:clone()
         end)
         before(to, stream, true, by_event)
         sim.stream(stream, function() step.change(to.tensor, b) end)
      end
   end
   sim.synchronize(0)
   sim.synchronize(1)
   for i = 1, SLOTS do slots[i] = slots[i].tensor:cpu() end
   return slots
end

local function same(a, b)
   for i = 1, SLOTS do
      if not torch.equal(a[i], b[i]) then return false end
   end
   return true
end

describe("random programs", function()
   teardown(function() sim.configure {seed = 1} end)

   it("give the CPU's bits", function()
      for number = FIRST, FIRST + PROGRAMS - 1 do
         local steps = program(number)
         local expected = on_cpu(steps)
         for seed = 1, SEEDS do
            sim.configure {seed = number * 1000 + seed}
            if not same(expected, on_devices(steps)) then
               error(("program %d with seed %d gives other numbers"):format(number, number * 1000 + seed))
            end
         end
      end
   end)

   it("give other bits without their waits", function()
      local wrong = 0
      for number = 1, 40 do
         local steps = program(number)
         sim.configure {seed = number}
         if not same(on_cpu(steps), on_devices(steps, true)) then wrong = wrong + 1 end
      end
      assert.is_true(wrong > 20, wrong .. " of 40")
   end)
end)
