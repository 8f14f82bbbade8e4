-- Tests DLPack, by which tlua's tensors and NumPy's arrays share memory: a Python program loads the library as a shared
-- object and passes arrays in both directions (spec/support/dlpack.py).

local shell = require "spec.support.shell"

it("DLPack carries arrays between NumPy and tensors without a copy", function()
   local python = shell.python "import numpy; numpy.from_dlpack"
   if not python then return pending "needs Python 3 with NumPy" end
   shell.with_folder(function(folder)
      local shim = shell.quote(folder .. "/shim.so")
      shell.ok(("%s -shared -fPIC -o %s spec/support/dlpack_shim.c -Isrc %s/libtlua.a " ..
         "$(pkg-config --cflags --libs lua5.4) -lm -ldl -lpthread"):format(
         os.getenv "CC" or "cc", shim, shell.quote(shell.build)))
      assert.equal("passed\n", shell.ok(("%s spec/support/dlpack.py %s"):format(python, shim)))
   end)
end)
