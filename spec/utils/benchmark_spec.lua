-- Tests torch.utils.benchmark.

local torch = require "tlua"
local benchmark = torch.utils.benchmark
local Measurement = benchmark.Measurement

local task = {label = "sum", sub_label = "small", description = "ours", num_threads = 1}

describe("a measurement", function()
   it("has median, mean and the distance of the quartiles, as numpy has them", function()
      local m = Measurement(task, 10, {1.0, 4.0, 2.0, 3.0})
      assert.close(0.25, m.median, 1e-12)
      assert.close(0.25, m.mean, 1e-12)
      assert.close(0.15, m.iqr, 1e-12)
      assert.same({0.1, 0.2, 0.3, 0.4}, m.times)
   end)

   it("shows the significant digits, in a suitable unit", function()
      local m = Measurement(task, 1, {1.001e-3, 1.002e-3, 1.003e-3, 1.004e-3})
      assert.equal(3, m.significant_figures)
      assert.matches("sum: small\nours\n  Median: 1.00 ms", tostring(m))
      assert.matches("4 measurements, 1 runs per measurement, 1 thread$", tostring(m))
      assert.equal("1230", Measurement.rounded(1234, 3))
      assert.equal("0.0012", Measurement.rounded(0.001234, 2))
   end)

   it("says when other programs disturbed it", function()
      assert.is_true(Measurement(task, 1, {1, 2, 3}).has_warnings)
      assert.is_false(Measurement(task, 1, {1, 1, 1}).has_warnings)
   end)
end)

describe("a timer", function()
   it("runs code with the given globals and the variables of setup", function()
      local calls = 0
      local timer = benchmark.Timer {
         stmt = "count(y)", setup = "y = x + 1",
         globals = {x = 1, count = function(y) calls = calls + y end},
      }
      local m = timer:timeit(50)
      assert.equal(1, #m.times)
      assert.equal(50, m.number_per_run)
      assert.equal(2 * (50 + 1 + 1), calls)
   end)

   it("repeats until it has measured long enough", function()
      local x = torch.ones(64)
      local m = benchmark.Timer({stmt = function() return x + x end}):blocked_autorange {min_run_time = 0.02}
      assert.is_true(#m.times >= 2)
      assert.is_true(m.median > 0)
      m = benchmark.Timer({stmt = "torch.ones(4)"}):adaptive_autorange {max_run_time = 0.05}
      assert.is_true(#m.times >= 4)
   end)

   it("computes with num_threads threads, and restores the number", function()
      local before, during = torch.get_num_threads(), nil
      benchmark.Timer({stmt = function() during = torch.get_num_threads() end, num_threads = 2}):timeit(1)
      assert.equal(2, during)
      assert.equal(before, torch.get_num_threads())
   end)

   it("reports mistakes in its code", function()
      assert.raises("utils.benchmark.Timer: stmt: ", function() benchmark.Timer {stmt = "x ="} end)
      assert.raises("unknown option stm; did you mean stmt?", function() benchmark.Timer {stm = "x"} end)
      assert.raises("number: expected an integer of at least 1, got 0",
         function() benchmark.Timer({stmt = "1"}):timeit(0) end)
   end)

   it("refuses times and counts that make no sense", function()
      local timer = benchmark.Timer {stmt = "1"}
      assert.raises("timeit: number: expected an integer, got 1.5", function() timer:timeit(1.5) end)
      assert.raises("blocked_autorange: min_run_time: expected a number of at least 0, got -1",
         function() timer:blocked_autorange {min_run_time = -1} end)
      assert.raises("adaptive_autorange: threshold: expected a number of at least 0, got",
         function() timer:adaptive_autorange {threshold = 0 / 0} end)
      assert.raises("collect_callgrind: number: expected an integer of at least 1, got 0",
         function() timer:collect_callgrind {number = 0} end)
      assert.raises("collect_callgrind: globals: another process",
         function() benchmark.Timer({stmt = "x", globals = {x = 1}}):collect_callgrind() end)
   end)

   it("counts instructions by valgrind, of an expression and of statements", function()
      if not os.execute "valgrind --version >/dev/null 2>&1" or os.getenv "SPEC_SANITIZED" then
         return pending "needs valgrind and a plain build"
      end
      local function count(stmt)
         return assert(benchmark.Timer({stmt = stmt, setup = "a = torch.ones(8)"}) :collect_callgrind(200))
      end
      local one, three = count "a + a", count "local b = a + a; b = b + a; b = b + a"
      assert.is_true(one > 500, one)
      assert.is_true(three > 2 * one and three < 4 * one, three)
      local none, message = benchmark.Timer({stmt = "no.such()"}):collect_callgrind {number = 1}
      assert.is_nil(none)
      assert.matches("^collect_callgrind: .*attempt to index", message)
   end)
end)

it("compare has a row for each sub_label and a column for each description", function()
   local function made(sub, description, seconds)
      return Measurement({label = "add", sub_label = sub, description = description, num_threads = 1}, 1, {seconds})
   end
   local compare = benchmark.Compare {made("8x8", "ours", 2e-6), made("8x8", "theirs", 4e-6),
      made("9x9", "ours", 3e-6)}
   local text = tostring(compare)
   assert.matches("add +ours +theirs\n", text)
   assert.matches("8x8 +2.0 +4.0\n", text)
   assert.matches("9x9 +3.0\n", text)
   assert.matches("Times are in microseconds %(us%)", text)
   compare:colorize()
   assert.matches("\27%[32m2.0\27%[0m +\27%[31m4.0\27%[0m", tostring(compare))
   assert.raises("expected a list of measurements, got 3", function() benchmark.Compare {3} end)
end)
