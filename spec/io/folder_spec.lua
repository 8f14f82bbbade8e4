local torch = require "tlua"
local io_folder = require "tlua.io.folder"
local shell = require "spec.support.shell"

local root
before_each(function() root = shell.ok("mktemp -d"):match "[^\n]+" end)
after_each(function() shell.ok("rm -rf " .. shell.quote(root)) end)

describe("io.make_folder", function()
   it("makes a folder and its parents, and returns its absolute path", function()
      local path = root .. "/a b/it's/c"
      assert.equal(shell.ok("realpath " .. root):match "[^\n]+" .. "/a b/it's/c", torch.io.make_folder(path .. "/"))
      shell.write(path .. "/file", "kept")
      assert.is_string(torch.io.make_folder(path))
      assert.equal("kept", shell.read(path .. "/file"))
      assert.equal(shell.ok("pwd -P"):match "[^\n]+", torch.io.make_folder("."))
   end)

   it("follows a link to a folder", function()
      shell.ok(("mkdir %s/real && ln -s real %s/link"):format(root, root))
      assert.matches("/real/below$", torch.io.make_folder(root .. "/link/below"))
   end)

   it("raises an error with the reason, and changes nothing", function()
      shell.write(root .. "/file", "")
      for path, why in pairs {[root .. "/file"] = "Not a directory", [root .. "/file/a"] =
         "Not a directory", [""] = "No such file", [root .. "/" .. ("x"):rep(300)] = "too long"} do
         local made, message = torch.io.make_folder(path)
         assert.is_nil(made)
         assert.matches(why, message, 1, true)
      end
      assert.same({{}, {"file"}, {}}, {io_folder.list(root)})
      assert.raises("io.make_folder: expected a path, got nothing", function() torch.io.make_folder() end)
      assert.raises("io.make_folder: expected a path", function() torch.io.make_folder "a\0b" end)
   end)
end)

it("the absolute path of a folder is found without making the folder", function()
   assert.equal(shell.ok("realpath " .. root):match "[^\n]+", io_folder.absolute(root .. "/."))
   local path, message = io_folder.absolute(root .. "/absent")
   assert.is_nil(path)
   assert.matches("No such file", message, 1, true)
   assert.same({{}, {}, {}}, {io_folder.list(root)})
end)

describe("the contents of a folder", function()
   before_each(function()
      shell.ok(("cd %s && mkdir -p b/d a && touch b/1 b/d/3 2 && ln -s b link && ln -s none dead " ..
         "&& ln -s .. b/up"):format(root))
   end)

   it("are listed as folders, with links to them, and files, sorted", function()
      assert.same({{"a", "b", "link"}, {"2", "dead"}, {link = true}}, {io_folder.list(root)})
      local none, message = io_folder.list(root .. "/none")
      assert.is_nil(none)
      assert.matches("No such file", message)
   end)

   it("have kinds, of which one is for pipes and sockets", function()
      shell.ok(("cd %s && mkfifo pipe && ln -s ../pipe b/to_pipe"):format(root))
      assert.same({a = "d", b = "d", link = "l", ["2"] = "f", dead = "f", pipe = "s"}, io_folder.kinds(root))
      assert.equal("s", io_folder.kinds(root .. "/b").to_pipe)
      assert.same({"2", "dead", "pipe"}, (select(2, io_folder.list(root))))
   end)

   it("are listed as all files below it, without following links", function()
      local found = io_folder.files_below(root)
      for i, path in ipairs(found) do found[i] = path:sub(#root + 2) end
      assert.same({"2", "b/1", "b/d/3", "dead"}, found)
      assert.same({}, io_folder.files_below(root .. "/none"))
   end)
end)
