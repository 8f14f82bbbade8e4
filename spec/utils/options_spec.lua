local torch = require "tlua"

local function parser()
   local options = torch.utils.options("train.lua", "Trains a model.")
   options:argument("file", "what to train on")
   options:argument("out", "where to", "out.txt")
   options:option("-e --epochs", "passes over the data", 12)
   options:option("--lr", "learning rate", 1e-3)
   options:option("--mode", "how", "fast"):choices {"fast", "good"}
   options:option("--seed", "start"):convert(function(text)
      return math.tointeger(tonumber(text)), "a whole number"
   end)
   options:flag("-q --no-bar", "no progress bar")
   return options
end

describe("torch.utils.options", function()
   it("gives defaults", function()
      assert.same({file = "x", out = "out.txt", epochs = 12, lr = 1e-3, mode = "fast",
         no_bar = false, help = false}, parser():pparse {"x"})
   end)

   it("takes values in every form", function()
      local o = parser():pparse {"--epochs", "3", "--lr=1", "x", "-q", "--mode", "good", "y", "--seed", "-4"}
      assert.same({3, 1.0, "x", true, "good", "y", -4}, {o.epochs, o.lr, o.file, o.no_bar, o.mode, o.out, o.seed})
      assert.equal("float", math.type(o.lr))
      assert.equal(5, parser():pparse({"x", "-e", "5"}).epochs)
      assert.equal("-x", parser():pparse({"--", "-x"}).file)
   end)

   it("names the mistake", function()
      local function fails(text, ...)
         local result, message = parser():pparse {...}
         assert.is_nil(result)
         assert.is_truthy(message:find(text, 1, true), message)
      end
      fails("file is missing")
      local few = torch.utils.options("train.lua", "")
      few:option("--layers", "the depth", 2):choices {2, 4}
      assert.equal(4, few:pparse({"--layers", "4"}).layers)
      assert.matches("%-%-layers: expected one of 2, 4, got '3'", select(2, few:pparse {"--layers", "3"}))
      fails("unknown option --epoch; did you mean --epochs?", "x", "--epoch", "3")
      fails("--epochs: expected an integer, got '1.5'", "x", "--epochs", "1.5")
      fails("--lr: expected a number, got 'fast'", "x", "--lr", "fast")
      fails("--mode: expected one of fast, good, got 'bad'", "x", "--mode", "bad")
      fails("--seed: expected a whole number, got 'a'", "x", "--seed", "a")
      fails("--lr: a value is missing", "x", "--lr")
      fails("--no-bar takes no value", "x", "--no-bar=1")
      fails("one argument too many: 'z'", "x", "y", "z")
   end)

   it("explains itself", function()
      local text = parser():help()
      assert.matches("usage: train.lua [options] <file> [<out>]", text, 1, true)
      assert.matches("%-e, %-%-epochs <epochs> +passes over the data %(default: 12%)", text)
      assert.is_true(parser():pparse({"--help"}).help)
   end)
end)
