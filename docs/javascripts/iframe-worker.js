/* The search of the site runs in a worker, and browsers start none for pages that are read from a folder. This stands in
   for it there: a hidden frame that runs the worker's script and passes messages. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = null
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.srcdoc = `<script>
        postMessage = data => parent.postMessage(data, "*")
        importScripts = (...urls) => Promise.all(urls.map(url => new Promise((resolve, reject) => {
          const script = document.createElement("script")
          Object.assign(script, {src: url, onload: resolve, onerror: reject})
          document.head.append(script)
        })))
      <\/script><script src="${new URL(url, location.href).href}"><\/script>`
      this.frame.addEventListener("load", () => {
        const waiting = this.waiting
        this.waiting = null
        waiting.forEach(data => this.postMessage(data))
      })
      window.addEventListener("message", event => {
        if (event.source === this.frame.contentWindow) {
          const message = new MessageEvent("message", {data: event.data})
          this.dispatchEvent(message)
          if (this.onmessage) this.onmessage(message)
        }
      })
      const add = () => document.body.append(this.frame)
      document.body ? add() : addEventListener("DOMContentLoaded", add)
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data}))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
