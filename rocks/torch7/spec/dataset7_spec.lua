-- Tests Torch7's package dataset, and the queue and the serialization of functions of the package threads.

local shell = require "spec.support.shell"
local torch = require "torch7"
local Dataset = require "tlua.torch7.dataset"

local function same(list, tensor) assert.same(list, tensor:totable()) end

describe("Torch7's dataset", function()
   it("gives batches of tensors in order, and a smaller one at the end", function()
      local data, size = Dataset(torch.range(1, 5):view(5, 1))
      assert.equal(5, size())
      local batch_of, count, reset = data.sampledBatcher {batchSize = 2}
      assert.equal(3, count())
      for _ = 1, 2 do
         same({{1}, {2}}, batch_of().input)
         same({{3}, {4}}, batch_of().input)
         local last = batch_of()
         assert.equal(1, last.batchSize)
         same({{5}}, last.input)
      end
      assert.equal(0, batch_of().batchSize - 2)
      reset()
      same({{1}, {2}}, batch_of().input)
   end)

   it("numbers labels, and samples by them", function()
      local path = os.tmpname()
      torch.save(path, {x = torch.Tensor {1, 2, 3, 4}, y = torch.Tensor {20, 10, 10, 20}})
      local data = Dataset(path)
      os.remove(path)
      local batch = (data.sampledBatcher {batchSize = 4})()
      same({2, 1, 1, 2}, batch.target)
      assert.same({20, 10, 10, 20}, batch.label)
      local by_label = data.sampledBatcher {batchSize = 20, samplerKind = "label-uniform"}
      for _, value in ipairs(by_label(10).input:view(-1):totable()) do assert.is_true(value == 2 or value == 3) end
      local turns = (data.sampledBatcher {batchSize = 4, samplerKind = "label-permutation"})()
      same({1, 2, 1, 2}, turns.target)
      local seen = (data.sampledBatcher {batchSize = 4, samplerKind = "permutation"})().input:view(-1):totable()
      table.sort(seen)
      assert.same({1, 2, 3, 4}, seen)
      local rare = data.sampledBatcher {batchSize = 9, samplerKind = "label-distribution",
         distribution = {[10] = 1}}
      assert.equal(9, rare().target:sum())
   end)

   it("reads files listed in a table, and partitions of the list", function()
      local folder = shell.ok "mktemp -d":gsub("%s+$", "")
      for name, text in pairs {["index.csv"] = "filename,label1,label2\na.txt,XX\nb.txt,AA,XX\nc.txt,XX\n",
         ["a.txt"] = "1", ["b.txt"] = "22", ["c.txt"] = "333"} do
         local file = assert(io.open(folder .. "/" .. name, "w"))
         file:write(text)
         file:close()
      end
      local function lengths(data)
         local got = {}
         local batch_of, count = data.sampledBatcher {batchSize = 2, inputDims = {1}, processorOpt = {factor = 10},
            processor = function(res, opt, input)
               input:fill(#res * opt.factor)
               return #res ~= 2
            end}
         for _ = 1, count() do
            local batch = batch_of()
            for i = 1, batch.batchSize do got[#got + 1] = batch.input[i][1] end
         end
         return got
      end
      assert.same({10, 30}, lengths(Dataset(folder .. "/index.csv")))
      assert.same({30}, lengths(Dataset(folder .. "/index.csv", {partition = 2, partitions = 3}) and
         Dataset(folder .. "/index.csv", {partition = 3, partitions = 3})))
      assert.same({"AA", "XX"}, Dataset(folder .. "/index.csv").index.names)
      local both = Dataset {torch.range(1, 3), torch.range(11, 13)}
      local sums = (both.sampledBatcher {batchSize = 3, processor = function(a, b, _, input)
         input:fill(a[1] + b[1])
         return true
      end})().input
      same({{12}, {14}, {16}}, sums)
      shell.ok("rm -r " .. shell.quote(folder))
   end)

   it("refuses missing files, other machines' paths and wrong options", function()
      assert.raises("expected a path on this machine", function() Dataset "slowfs:///a/b" end)
      assert.raises("there is no such file", function() Dataset "/nowhere.csv" end)
      assert.raises("dataset: expected a tensor, a table or a path, got nil", function() Dataset() end)
      assert.raises("dataset: options: expected a table, got number", function() Dataset(torch.ones(2), 5) end)
      assert.raises("dataset: options: expected a table, got number",
         function() Dataset(torch.ones(2)).sampledBatcher(5) end)
      assert.raises("a label for each of 3 records, got 2", function()
         Dataset {x = torch.ones(3), y = torch.ones(2)}
      end)
      assert.raises("a label for each of 3 records, got string", function() Dataset {x = torch.ones(3), y = "a"} end)
      assert.raises("expected {x = records, y = labels}, got a table without x", function() Dataset {} end)
      local data = Dataset(torch.ones(3))
      assert.raises("expected labels for this sampler, got 3 records without labels", function()
         data.sampledBatcher {samplerKind = "label-distribution", distribution = {a = 1}}
      end)
      assert.raises("samplerKind: expected one of label-distribution, ", function()
         data.sampledBatcher {samplerKind = "lineer"}
      end)
      assert.raises("partition: expected a number from 1 to 2, got 3", function()
         Dataset(torch.ones(3), {partition = 3, partitions = 2})
      end)
   end)
end)

describe("Torch7's threads", function()
   it("have queues, and serialize functions with their upvalues", function()
      assert.equal("8\n385\ntrue\n", shell.ok(("%s --torch7 -e %s"):format(shell.tlua, shell.quote [[
         local threads, Queue = require "threads", require "threads.queue"
         local serialize, five = require "threads.serialize", 5
         print(serialize.load(serialize.save(function(x) return x + five end))(3))
         local jobs, answers = Queue(4), Queue(100)
         local pool = threads.Threads(2, function() require "threads.queue" end)
         for _ = 1, 2 do
            pool:addjob(function()
               for _ = 1, 5 do answers:addjob(function(value) return value end, jobs:dojob()) end
            end)
         end
         for i = 1, 10 do
            local x = torch.LongTensor {i}
            jobs:addjob(function(n) return n * x[1] end, i)
         end
         pool:synchronize()
         pool:terminate()
         local sum = 0
         for _ = 1, 10 do sum = sum + answers:dojob() end
         print(sum)
         jobs:free()
         answers:free()
         print((select(2, pcall(Queue, 0)):find "expected a count of jobs, got 0") ~= nil)]])))
   end)
end)
