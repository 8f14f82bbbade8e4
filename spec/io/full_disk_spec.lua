-- Tests what happens when a disk is full. To simulate this, programs run under a limit on the size of files, beyond
-- which the system refuses to write. For every kind of file, the message must name the file and the system's reason,
-- and an existing file must stay unchanged.

local shell = require "spec.support.shell"

-- Every program begins with these lines. `try` prints the error of a call that must fail.
local head <const> = [[
local torch, folder = torch, arg[1]
local nn = torch.nn
local x = torch.arange(0, 90000):view(300, 300):float()
local image = torch.full({3, 300, 300}, 7, {dtype = "uint8"}) + (x % 251):to "uint8"
local function old(name)
   local path = folder .. "/" .. name
   local file <close> = assert(io.open(path, "w"))
   assert(file:write "the older file")
   return path
end
local function try(fn, ...)
   local ok, why = pcall(fn, ...)
   print(ok and "no error" or tostring(why))
end
]]

-- Runs a program in a shell that limits files to 8 blocks, each of 512 or 1,024 bytes. Returns the program's output,
-- the final contents of the file `name`, the names of all files, the status and the folder.
local function run_limited(program, name)
   return shell.with_folder(function(folder)
      local script <close> = assert(io.open(folder .. "/script.lua", "w"))
      script:write(head, program)
      script:close()
      local command = ("ulimit -f 8; TLUA_CACHE=0 exec %s %s %s"):format(shell.start(),
         shell.quote(folder .. "/script.lua"), shell.quote(folder))
      local output, status = shell.run("sh -c " .. shell.quote(command))
      local file = io.open(folder .. "/" .. name, "rb")
      local kept = file and file:read "a"
      if file then file:close() end
      local files = {}
      for path in shell.run(("cd %s && find . -type f"):format(shell.quote(folder))):gmatch "%./([^\n]+)" do
         files[#files + 1] = path
      end
      table.sort(files, function(a, b) return b == "script.lua" or a ~= "script.lua" and a < b end)
      return output, kept, files, status, folder
   end)
end

-- Maps the names of existing files to programs that try to replace these files.
local replaced <const> = {
   {"weights.safetensors", "try(torch.save, nn.Linear(100, 100):state_dict(), old 'weights.safetensors')"},
   {"weights.pt", "try(torch.save, nn.Linear(100, 100):state_dict(), old 'weights.pt')"},
   {"training.pt", [[
local model = nn.Linear(100, 100)
local optimizer = torch.optim.Adam(model:parameters())
model(x[{{1, 100}, {1, 100}}]):sum():backward()
optimizer:step()
try(torch.save, {model = model:state_dict(), optimizer = optimizer:state_dict(), epoch = 3}, old "training.pt")]]},
   {"data.pt", "local list = {}\nfor i = 1, 20000 do list[i] = i end\ntry(torch.save, list, old 'data.pt')"},
   {"array.npy", "try(torch.save, x, old 'array.npy')"},
   {"arrays.npz", "try(torch.save, {x = x}, old 'arrays.npz')"},
   {"image.png", "try(torch.save, torch.randint(0, 256, {3, 300, 300}):to 'uint8', old 'image.png')"},
   {"image.jpg", "try(torch.save, torch.randint(0, 256, {3, 300, 300}):to 'uint8', old 'image.jpg')"},
   {"model.tlp", "try(torch.export.save, torch.export(nn.Linear(100, 100), {torch.ones(1, 100)}), old 'model.tlp')"},
   {"trace.json", [[
local profile = torch.profiler.profile {}
profile:start()
for _ = 1, 2000 do x = x + 1 end
profile:stop()
try(profile.export_chrome_trace, profile, old "trace.json")]]},
   {"page.html", [[
local profile = torch.profiler.profile {}
profile:start()
for _ = 1, 100 do x = x + 1 end
profile:stop()
try(profile.export_html, profile, old "page.html")]]},
   {"plot.png", "try(torch.utils.plot.image, torch.rand(100, 100), {scale = 8, save = old 'plot.png'})"},
   {"vocabulary.json", [[
local words = {}
for i = 1, 2000 do words[i] = ("word%d other%d "):format(i, i):rep(2) end
local tokens = torch.text.BPE.train(table.concat(words), {vocab_size = 2000})
print(tokens:save(old "vocabulary.json", "/dev/null"))]]},
   {"lua.t7", [[
local t7 = require "tlua.torch7.torch"
try(t7.save, old "lua.t7", {weight = t7.randn(100, 100)})]]},
   {"picture.ppm", [[
try(require "tlua.torch7.image".save, old "picture.ppm", require "tlua.torch7.torch".rand(3, 100, 100))]]},
}

describe("a full disk", function()
   for _, row in ipairs(replaced) do
      local name, program = table.unpack(row)
      it("leaves the older file " .. name .. " whole", function()
         local output, kept, files, status, folder = run_limited(program, name)
         assert.equal(0, status, output)
         assert.matches(folder .. "/" .. name, output, 1, true)
         assert.matches("File too large", output, 1, true)
         assert.equal("the older file", kept)
         assert.same({name, "script.lua"}, files)
      end)
   end

   it("leaves the older distributed checkpoint complete", function()
      local output, kept, files, status = run_limited([[
local checkpoint = torch.distributed.checkpoint
checkpoint.save({x = torch.ones(3)}, {checkpoint_id = folder .. "/saved"})
try(checkpoint.save, {x = x}, {checkpoint_id = folder .. "/saved"})
local state = {x = torch.zeros(3)}
checkpoint.load(state, {checkpoint_id = folder .. "/saved"})
print(state.x:sum():item())]], "saved/index.json")
      assert.equal(0, status, output)
      assert.matches("/saved/[%w-]+%.safetensors: File too large\n3.0\n$", output)
      assert.truthy(kept)
      assert.equal(3, #files) -- three files are in the folder: the index, one part, and the script
   end)

   for _, row in ipairs {
      {"TensorBoard", [[
local writer = torch.utils.tensorboard.SummaryWriter(folder .. "/logs")
for i = 1, 3000 do writer:add_scalar("loss", i, i) end
writer:close()]], "^SummaryWriter: %S+/logs/events%S+: File too large; nothing more is written\ntrained\n$"},
      {"MLflow", [[
local mlflow = torch.utils.mlflow
mlflow.set_tracking_uri(folder .. "/runs")
local run <close> = mlflow.start_run {run_name = "first"}
for i = 1, 3000 do run:log_metric("loss", i, i) end]],
         "mlflow: %S+/runs/%S+/metrics/loss: File too large; no further values are logged\n"},
      {"torch7's optim", [[
local optim = require "tlua.torch7.optim"
local logger = optim.Logger(folder .. "/train.log")
logger:setNames {"loss"}
for i = 1, 3000 do logger:add {i} end]], "optim.Logger: %S+/train.log: File too large; nothing more is written\n"},
   } do
      it(("ends a log of %s with a message, and the training goes on"):format(row[1]), function()
         local output = run_limited(row[2] .. "\nprint 'trained'", "none")
         assert.matches(row[3], output)
         assert.matches("trained\n", output, 1, true)
      end)
   end

   it("fails a spawn of processes with the reason", function()
      local output = run_limited([[
local ok, why = pcall(torch.multiprocessing.spawn, function(rank, t) print(rank, t:sum()) end, {x}, 1)
print(ok, (tostring(why):match "File too large"))]], "none")
      assert.equal("false\tFile too large\n", output)
   end)
end)
