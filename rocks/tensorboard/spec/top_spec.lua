-- Tests `tlua top`, which shows the curves of a training run while it runs.

local torch = require "tlua"
local session = require "spec.main.session"
local shell = require "spec.support.shell"
local top = require "tlua.tensorboard.top"
local tlua = shell.start()

local function with_run(fn)
   shell.with_folder(function(folder)
      local writer = torch.utils.tensorboard.SummaryWriter(folder .. "/first")
      for i = 1, 20 do writer:add_scalar("loss", 1 / i, i) end
      writer:add_scalar("accuracy", 0.5, 20)
      writer:flush()
      fn(folder, writer)
      writer:close()
   end)
end

describe("tlua top", function()
   it("draws each curve once, with its last value", function()
      with_run(function(folder)
         local output = shell.ok(("%s top --once %s"):format(tlua, folder))
         assert.matches("loss  %(first: 0.05 at 20%)", output)
         assert.matches("accuracy  %(first: 0.5 at 20%)", output)
         -- This pattern matches any Braille character; curves are drawn with such characters.
         assert.matches("\226[\160-\163]", output)
         assert.not_matches("\27", output)
         output = shell.ok(("%s top --once --filter acc %s/"):format(tlua, folder))
         assert.not_matches("loss", output)
      end)
   end)

   it("includes records that are added meanwhile, for all runs below the folder", function()
      with_run(function(folder, writer)
         local watched = top.watch(folder)
         assert.equal(21, #watched.look())
         assert.equal(0, #watched.look())
         writer:add_scalar("loss", 7, 21)
         writer:flush()
         local other = torch.utils.tensorboard.SummaryWriter(folder .. "/second")
         other:add_scalar("loss", 8, 1)
         other:close()
         local new = watched.look()
         assert.equal(2, #new)
         assert.same({"loss", "first", 21, 7}, {new[1].tag, new[1].run, new[1].step, new[1].value})
         assert.same({"accuracy", "loss"}, watched.names)
         assert.equal(21, #watched.tags.loss.first.x)
         assert.matches("loss  %(first: 7 at 21, second: 8 at 1%)", top.picture(watched, {columns = 40, lines = 5}))
      end)
   end)

   it("ignores an incomplete record until it is complete", function()
      with_run(function(folder, writer)
         writer:close()
         local whole = shell.read(writer.path)
         shell.write(writer.path, whole:sub(1, -5))
         local watched = top.watch(folder)
         assert.equal(20, #watched.look())
         shell.write(writer.path, whole)
         assert.equal(1, #watched.look())
      end)
   end)

   it("writes lines on a dumb terminal, until Ctrl-C", function()
      with_run(function(folder)
         local output, status = session.terminal({"? accuracy = 0.5", "! \\003"},
            {arguments = "top --every 0.1 " .. folder, env = "TERM=dumb"})
         assert.matches("first  step 20  loss = 0.05\r\n", output)
         assert.matches("first  step 20  accuracy = 0.5\r\n", output)
         assert.not_matches("traceback", output)
         assert.equal(0, status)
      end)
   end)

   it("redraws the curves on a terminal", function()
      with_run(function(folder)
         local shown = session.terminal({"? first: 0.05 at 20", "! \\003"},
            {arguments = "top --every 0.1 " .. folder})
         assert.matches("\27%[H\27%[J", shown)
      end)
   end)

   it("names the wrong argument in its errors", function()
      local function wrong(arguments, text)
         local output, status = shell.run(tlua .. " top " .. arguments)
         assert.equal(1, status)
         assert.matches("tlua top: " .. text, output, 1, true)
      end
      wrong("", "which folder?")
      wrong("/nowhere/at/all", "/nowhere/at/all: no folder")
      wrong("--twice .", "unrecognized option '--twice'")
      wrong("--every soon .", "--every: expected a number of at least 0.05, got soon")
      wrong(". .", "more than one folder")
      assert.matches("usage: tlua top", shell.ok(tlua .. " top --help"))
   end)
end)
