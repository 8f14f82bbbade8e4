-- Tests torch.utils.wandb against a file that W&B's library has recorded (fixtures/library.py). If W&B's library is
-- installed, its own reader also reads our files.

local torch = require "tlua"
local shell = require "spec.support.shell"
local datastore = require "tlua.wandb.datastore"
local protobuf = require "tlua.utils.protobuf"
local json = torch.utils.json
local wandb = torch.utils.wandb

local fixture <const> = "rocks/wandb/spec/fixtures/library.wandb"
local kinds <const> = {[2] = "history", [3] = "summary", [5] = "config", [6] = "files", [7] = "stats", [17] = "run",
   [18] = "exit", [21] = "header", [26] = "environment"}

-- Returns the records of a file as a list. Each record has its kind, its fields, and its values, which are indexed by
-- their paths.
local function records(path)
   local found, list = assert(datastore.decode(shell.read(path))), {}
   for i, record in ipairs(found) do
      local fields = protobuf.fields(record.data)
      for number, kind in pairs(kinds) do
         if fields[number] then
            local inner, values = protobuf.fields(fields[number][1]), {}
            for _, item in ipairs(inner[kind == "stats" and 3 or kind == "run" and 4 or 1] or {}) do
               local parts = type(item) == "string" and protobuf.fields(kind == "run" and item or item)
               if parts and kind == "run" then
                  for _, update in ipairs(parts[1] or {}) do
                     local pair = protobuf.fields(update)
                     values[pair[1][1]] = pair[16][1]
                  end
               elseif parts and parts[16] then
                  values[table.concat(parts[2] or parts[1], ".")] = parts[16][1]
               end
            end
            list[#list + 1] = {kind = kind, num = fields[1][1], fields = inner, values = values}
         end
      end
      assert.equal(i, fields[1][1])
   end
   return list
end

local function of_kind(list, kind)
   local found = {}
   for _, record in ipairs(list) do if record.kind == kind then found[#found + 1] = record end end
   return found
end

local function failure(fn, ...)
   local ok, message = pcall(fn, ...)
   assert.is_false(ok)
   return (tostring(message):gsub("^[^\n]-:%d+: ", ""))
end

local function begin(folder, options)
   options = options or {}
   options.dir, options.interval = folder, options.interval or 0
   return wandb.init(options)
end

describe("the file of W&B's library", function()
   it("is read, and its records are written again byte for byte", function()
      local text = shell.read(fixture)
      local found, _, whole = datastore.decode(text)
      assert.is_true(whole)
      assert.equal(20, #found)
      local parts, at = {datastore.head}, #datastore.head
      for _, record in ipairs(found) do
         parts[#parts + 1] = datastore.encode(at, record.data)
         at = at + #parts[#parts]
         assert.equal(record.last, at)
      end
      assert.is_true(table.concat(parts) == text)
   end)

   it("has the same values as our file of the same run", shell.in_folder(function(folder)
      local run = begin(folder, {project = "p", name = "first", id = "abc12345", tags = {"t"}, notes = "hey",
         config = {lr = 0.1, n = {a = 1}}})
      run:log {loss = 0.5, acc = 1, flag = true, nan = 0 / 0, inf = -math.huge}
      run:log {loss = 0.25, text = ("x"):rep(40000)}
      run:log {h = wandb.Histogram({1, 2, 3, 3}, {num_bins = 4}),
         img = wandb.Image(torch.zeros(3, 4, 6, {dtype = "uint8"}), {caption = "c"})}
      run.summary.best = 0.25
      run.config.batch = 64
      run:finish()
      local function numbers(text)
         return (text:gsub("%-?%d[%d.e+-]*", function(word) return ("%.6g"):format(tonumber(word)) end))
      end
      local theirs, ours = records(fixture), records(run.path)
      for _, kind in ipairs {"history", "config", "run"} do
         local one, two = of_kind(theirs, kind), of_kind(ours, kind)
         assert.equal(#one, #two)
         for i = 1, #one do
            for name, value in pairs(one[i].values) do
               local is_free = name == "_timestamp" or name == "_runtime" or name:find "^img.[sp]"
               local mine = assert.is_string(two[i].values[name], name) and two[i].values[name]
               if not is_free then assert.equal(numbers(value), numbers(mine), name) end
               two[i].values[name] = nil
            end
            assert.is_nil(next(two[i].values))
         end
      end
      -- These are the fields project, name, notes and tags.
      for _, number in ipairs {1, 3, 8, 9, 10} do
         assert.same(of_kind(theirs, "run")[1].fields[number], of_kind(ours, "run")[1].fields[number])
      end
      assert.equal("0.25", of_kind(ours, "summary")[4].values.best)
      assert.equal(#of_kind(theirs, "exit"), #of_kind(ours, "exit"))
   end))
end)

describe("the library's reader", function()
   it("reads our file, and `wandb sync` finds the run", shell.in_folder(function(folder)
      local python = shell.python "import wandb, google.protobuf"
      if not python then return pending "needs W&B's library" end
      local run = begin(folder, {id = "abc", interval = 15, config = {lr = 0.5}})
      for i = 1, 300 do run:log {loss = 1 / i, text = ("x"):rep(i * 3), h = torch.rand(100)} end
      run:log {img = wandb.Image(torch.rand(3, 4)), t = wandb.Table {columns = {"a"}, data = {{1}}}}
      run:finish(3)
      local lines, last = {}, nil
      for line in shell.ok(("%s rocks/wandb/spec/fixtures/check.py %s"):format(python, run.path)):gmatch "[^\n]+" do
         last = json.decode(line)
         lines[#lines + 1] = last
      end
      assert.equal(3, last.exit.exit_code)
      local rows = 0
      for _, record in ipairs(lines) do rows = rows + (record.history and 1 or 0) end
      assert.equal(301, rows)
      assert.matches("run%-abc.wandb", shell.ok(("%s -m wandb sync --dry-run %s"):format(python, run.folder)))
      local function inspect(of)
         return shell.ok(("%s -m wandb leet inspect --summary %s"):format(python, of.folder))
      end
      assert.matches("state +finished %(exit code 3%)\n", (inspect(run):gsub("failed", "finished")))
      assert.matches("\n +loss +0.00333", inspect(run))
      assert.matches("\n +h +histogram\n", inspect(run))
      local killed = begin(folder, {id = "killed"})
      killed:log {loss = 7}
      assert.matches("\n +loss +7\n", inspect(killed))
      killed:finish()
   end))
end)

describe("wandb.init", function()
   it("makes the folder, and numbers the steps of rows from 0", shell.in_folder(function(folder)
      local run = begin(folder, {id = "abc", interval = 15})
      assert.matches("/wandb/offline%-run%-%d+_%d+%-abc/files$", run.dir)
      run:log {a = 1}
      wandb.log({a = 2}, {step = 5})
      wandb.log({b = 3}, {step = 5})
      wandb.log {c = torch.tensor(4), nested = {x = {y = 5}}, list = {1, 2}, small = torch.tensor {1.5, 2}}
      wandb.finish()
      local rows = of_kind(records(run.path), "history")
      assert.same({"0", "5"}, {rows[1].values._step, rows[2].values._step})
      assert.same({"2", "3", "4", "5", "[1,2]", "[1.5,2.0]"}, {rows[2].values.a, rows[2].values.b, rows[2].values.c,
         rows[2].values["nested.x.y"], rows[2].values.list, rows[2].values.small})
      assert.is_true(#of_kind(records(run.path), "stats") >= 1)
      assert.equal("finished", run.status)
      assert.equal("utils.wandb.Run.log: the run has ended", failure(run.log, run, {a = 1}))
      assert.equal("utils.wandb.Run.config: the run has ended", failure(function() run.config.a = 1 end))
      assert.equal("wandb.log: there is no run; call wandb.init first", failure(wandb.log, {a = 1}))
   end))

   it("ends the run after an error, and draws no numbers from torch's generator", shell.in_folder(function(folder)
      torch.manual_seed(3)
      local expected = torch.rand(1):item()
      torch.manual_seed(3)
      local path
      pcall(function()
         local run <close> = begin(folder)
         path = run.path
         run:log {h = wandb.Histogram(torch.ones(40))}
         error "training"
      end)
      assert.equal(expected, torch.rand(1):item())
      assert.same({1}, of_kind(records(path), "exit")[1].fields[1])
   end))

   it("records nothing if it is disabled", shell.in_folder(function(folder)
      local run = begin(folder, {mode = "disabled"})
      run:log {a = 1}
      run.config.x = 1
      run:finish()
      assert.equal("", shell.ok("ls " .. folder))
   end))

   it("keeps all rows of a killed run, and resumes the run", shell.in_folder(function(folder)
      shell.write(folder .. "/train.lua", ([[
         local run = torch.utils.wandb.init {dir = %q, id = "abc", config = {lr = 0.5}, interval = 0}
         for i = 1, 1000 do
            run:log {loss = i, text = ("x"):rep(200)}
            print(i)
            io.stdout:flush()
         end
         torch.distributed._sleep(60)]]):format(folder))
      local pipe <close> = assert(io.popen(("echo $$; exec %s %s/train.lua"):format(shell.start(), folder)))
      local pid = pipe:read "l"
      local seen
      repeat seen = tonumber(pipe:read "l") until seen >= 500
      shell.ok("kill -KILL " .. pid)
      for line in pipe:lines() do seen = tonumber(line) end
      local path = shell.ok("ls " .. folder .. "/wandb/offline-run-*-abc/run-abc.wandb"):match "[^\n]+"
      assert.is_true(#of_kind(records(path), "history") >= seen)
      local n = #of_kind(records(path), "history")
      -- This incomplete record is like one that a power failure leaves.
      shell.write(path, shell.read(path) .. "half a record")
      local run = begin(folder, {id = "abc", resume = "must"})
      assert.is_true(run.resumed)
      assert.same({n, n}, {run.step, run.summary.loss})
      run:log {loss = -1}
      run:finish()
      run = begin(folder, {id = "abc", resume = true}) -- a finished run can be resumed as well
      run:log {loss = -2}
      run:finish()
      local list = records(path)
      local rows = of_kind(list, "history")
      for i, row in ipairs(rows) do assert.equal(tostring(i - 1), row.values._step) end
      assert.same({n + 2, "-1", "-2"}, {#rows, rows[n + 1].values.loss, rows[n + 2].values.loss})
      assert.equal("exit", list[#list].kind)
      assert.equal(1, #of_kind(list, "exit"))
   end))

   it("goes on with the names, the tags and the config of the run", shell.in_folder(function(folder)
      local run = begin(folder, {id = "abc", project = "digits", name = "first", group = "g", tags = {"a", "b"},
         config = {lr = 0.1, sizes = {1, 2}, batch = 8}})
      run.config.batch, run.config.worst = 16, 1 / 0
      run.config.lost = 3
      run.config.lost = nil
      run:finish()
      local again = begin(folder, {id = "abc", resume = true, config = {lr = 0.2}})
      assert.same({"digits", "first"}, {again.project, again.name})
      local config = {}
      for name, value in pairs(again.config) do config[name] = value end
      assert.same({1, 2}, table.move(config.sizes, 1, 2, 1, {}))
      config.sizes = nil
      assert.same({lr = 0.2, batch = 16, worst = 1 / 0}, config)
      again:finish()
      local runs = of_kind(records(again.path), "run")
      local last = runs[#runs].fields
      assert.same({"digits", "first", "g", "a,b"}, {last[3][1], last[8][1], last[6][1], table.concat(last[10], ",")})
      local other = begin(folder, {id = "abc", resume = true, project = "other", name = "second"})
      assert.same({"other", "second"}, {other.project, other.name})
      other:finish()
   end))

   it("loses only the records after a damaged one", shell.in_folder(function(folder)
      local run = begin(folder, {id = "abc"})
      for i = 1, 20 do run:log {loss = i} end
      run:finish()
      local text = shell.read(run.path)
      for _, at in ipairs {#text - 3, #text // 2, 600, 9} do
         shell.write(run.path, text:sub(1, at - 1) .. string.char(text:byte(at) ~ 4) .. text:sub(at + 1))
         local again = begin(folder, {id = "abc", resume = true})
         assert.is_true(again.step <= 20)
         again:log {loss = 0}
         again:finish()
         local rows = of_kind(records(run.path), "history")
         assert.equal(again.step, #rows)
      end
      shell.write(run.path, "no file of W&B's")
      assert.equal(("wandb.init: %s: expected a file of W&B's library"):format(run.path),
         failure(begin, folder, {id = "abc", resume = true}))
   end))

   it("refuses a run that another process writes, and a run that exists", shell.in_folder(function(folder)
      local run = begin(folder, {id = "abc"})
      assert.equal(("wandb.init: %s: another process writes this run"):format(run.path),
         failure(begin, folder, {id = "abc", resume = true}))
      assert.equal(("wandb.init: id: this run exists in %s; resume = true continues it"):format(run.folder),
         failure(begin, folder, {id = "abc"}))
      run:finish()
   end))

   it("does not end the training when the disk is full", shell.in_folder(function(folder)
      shell.write(folder .. "/train.lua", ([[
         local run <close> = torch.utils.wandb.init {dir = %q, id = "abc", interval = 0}
         for i = 1, 1000 do run:log {loss = i, text = ("x"):rep(200)} end
         print "trained"]]):format(folder))
      local output = shell.ok(("(ulimit -f 100; exec %s %s/train.lua)"):format(shell.start(), folder))
      assert.matches("^wandb: .*/run%-abc.wandb: File too large; no further values are recorded\ntrained\n$", output)
      local run = begin(folder, {id = "abc", resume = true})
      assert.is_true(run.step > 20)
      run:finish()
   end))

   it("refuses options and values that it cannot record", shell.in_folder(function(folder)
      local function wrong(expected, options)
         assert.equal("wandb.init: " .. expected, failure(begin, folder, options))
      end
      wrong('mode: expected "offline" or "disabled", got "online"; runs are written offline, and `wandb sync` '
         .. "sends them",
         {mode = "online"})
      wrong('id: expected letters, digits, _ and -, got "../x"', {id = "../x"})
      wrong("resume: expected the run's id as well, got none", {resume = true})
      wrong(('resume: %s/wandb has no run with the id x'):format(folder), {id = "x", resume = "must"})
      wrong('resume: expected a boolean, "allow", "must" or "never", got "yes"', {id = "x", resume = "yes"})
      wrong("tags: expected texts, got 3", {tags = {3}})
      wrong("interval: expected seconds, or 0 for no figures, got -1", {interval = -1})
      wrong("config.f: expected a number, a text, a boolean, a tensor, Histogram, Image or Table, got a function",
         {config = {f = print}, id = "y"})
      local mended = begin(folder, {id = "y"}) -- the run that failed has left no files
      assert.is_false(mended.resumed)
      mended:finish()
      local run = begin(folder)
      local function bad(expected, data)
         assert.equal("utils.wandb.Run.log: " .. expected, failure(run.log, run, data))
      end
      bad("a.b: expected a number, a text, a boolean, a tensor, Histogram, Image or Table, got a function",
         {a = {b = print}})
      bad('data: expected names that do not begin with _, got "_step"', {_step = 1})
      bad("data: expected names that do not begin with _, got 1", {3})
      bad("data: expected a table, got 3", 3)
      bad('data: expected names in UTF-8, got "\xff"', {["\xff"] = 1})
      bad('a: expected a text in UTF-8, got "\xff"', {a = "\xff"})
      bad("a: expected a list, or a table whose keys are texts, got 10", {a = {[10] = 1}})
      bad('a: expected a list, or a table whose keys are texts, got "x"', {a = {1, 2, x = 3}})
      bad("a: expected a list, or a table whose keys are texts, got true", {a = {[true] = 1}})
      bad("a: expected a real tensor, got a complex64 tensor of shape (1)", {a = torch.complex(torch.ones(1),
         torch.ones(1))})
      bad("w: expected finite numbers, as a tensor with more than 32 elements is kept as a histogram; got a float32 "
         .. "tensor of shape (40)", {w = torch.full({40}, 0 / 0)})
      run:log {q = torch.quantize_per_tensor(torch.ones(40), 1, 0, "quint8")}
      local before = run.step
      run:log({early = 1}, {step = before})
      assert.matches("late: expected a number", failure(run.log, run, {late = print}, {step = before + 3}))
      assert.equal(before, run.step)
      run:log({early = 2}, {step = before, commit = true}) -- the row is still open
      assert.equal(2, run.summary.early)
      local loop = {}
      loop.loop = loop
      assert.matches("expected a number", failure(run.log, run, {loop = loop}))
      run:log {["../../up"] = wandb.Image(torch.ones(2, 2))}
      assert.matches("media/images/_/_/up_2_%x+.png\n$", shell.ok(("cd %s && find . -name '*.png'"):format(folder)))
      run:finish()
   end))
end)

describe("wandb's histograms, images and tables", function()
   it("check their arguments", function()
      assert.equal("wandb.Histogram: expected sequence or np_histogram, got neither", failure(wandb.Histogram))
      assert.matches("sequence: expected finite numbers", failure(wandb.Histogram, {1, 0 / 0}))
      assert.matches("sequence: expected finite numbers", failure(wandb.Histogram, torch.zeros(0)))
      assert.matches("sequence: expected numbers whose range is finite",
         failure(wandb.Histogram, {-1.7e308, 1.7e308}))
      for _, case in ipairs {{{{-1}, {1, 2}}, "counts, value 1: expected a finite number of at least 0, got -1"},
            {{{"a"}, {1, 2}}, 'counts, value 1: expected a finite number of at least 0, got "a"'},
            {{{1}, {2, 1}}, "edges, value 2: expected finite numbers in rising order, got 1"}} do
         assert.equal("wandb.Histogram: np_histogram, " .. case[2],
            failure(wandb.Histogram, {np_histogram = case[1]}))
      end
      assert.matches("num_bins: expected an integer from 1 to 512, got 0",
         failure(wandb.Histogram, {1}, {num_bins = 0}))
      assert.matches("np_histogram: expected {counts, edges} with one edge more than counts",
         failure(wandb.Histogram, {np_histogram = {{1}, {1}}}))
      assert.same({{0, 1}, {2.5, 3.0, 3.5}}, (function(h) return {h.histogram, h.bins} end)(
         wandb.Histogram({3}, {num_bins = 2})))
      assert.matches("data_or_path: expected uint8 or floats from 0 to 1 of shape",
         failure(wandb.Image, torch.zeros(5, 2, 2)))
      assert.matches("data_or_path: expected finite numbers", failure(wandb.Image, torch.full({2, 2}, 0 / 0)))
      assert.matches("wandb.Image: load: /nowhere.png: No such file", failure(wandb.Image, "/nowhere.png"))
      local rows = wandb.Table {columns = {"a", "b"}}
      rows:add_data(1, nil)
      assert.equal("wandb.Table.add_data: expected 2 values, one for each column, got 1",
         failure(rows.add_data, rows, 1))
      assert.matches("wandb.Table.add_data: b: expected a number, a text or a boolean, got a function",
         failure(rows.add_data, rows, 1, print))
   end)

   it("are written to files of the run if they are images or tables", shell.in_folder(function(folder)
      local run <close> = begin(folder)
      run:log {["val/t"] = wandb.Table {columns = {"a", "b"}, data = {{1, "x"}, {0 / 0, true}}},
         img = wandb.Image(torch.tensor {{0, 1}, {0.5, 0}})}
      local list = records(run.path)
      local row = of_kind(list, "history")[1].values
      local path = run.dir .. "/" .. json.decode(row["val/t.path"])
      assert.equal('{"columns":["a","b"],"data":[[1,"x"],["NaN",true]]}', shell.read(path))
      assert.equal(torch.io._sha256(shell.read(path)), json.decode(row["val/t.sha256"]))
      local image = torch.load(run.dir .. "/" .. json.decode(row["img.path"]))
      assert.same({{{0, 255}, {128, 0}}}, image:tolist())
      assert.equal(2, #of_kind(list, "files"))
   end))
end)

it("the example records its run", shell.in_folder(function(folder)
   local output = shell.ok(("%s rocks/wandb/examples/line.lua %s"):format(shell.start(), folder))
   local path = output:match "^slope %d.%d+, offset %d.%d+\n([^\n]+)\n$"
   local rows = of_kind(records(shell.ok("ls " .. path .. "/*.wandb"):match "[^\n]+"), "history")
   assert.equal(51, #rows)
   assert.equal('"image-file"', rows[51].values["points._type"])
end))
