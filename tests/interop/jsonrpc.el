;;; jsonrpc.el --- Emacs's own JSON-RPC client speaks with idem-reference  -*- lexical-binding: t -*-
;; Requests, notifications, errors, several at once and shutdown, under lsp over stdio.
(require 'jsonrpc)
(require 'cl-lib)

(defvar idem-notified nil "Notifications and requests the server sent; there should be none.")

(defvar idem-conn
  (make-instance
   'jsonrpc-process-connection
   :name "idem"
   :notification-dispatcher (lambda (&rest message) (push message idem-notified))
   :request-dispatcher (lambda (&rest message) (push message idem-notified))
   :process (lambda ()
              (make-process :name "idem-reference" :connection-type 'pipe :coding 'utf-8-emacs-unix
                            :noquery t :stderr (get-buffer-create "*idem stderr*")
                            :command (list (getenv "IDEM_REFERENCE")
                                           "--profile" "lsp" "--framing" "content-length")))))

(defun idem-expect (what wanted got)
  "Fail unless GOT is WANTED; WHAT names it."
  (unless (equal wanted got)
    (message "%s: wanted %S, got %S" what wanted got)
    (kill-emacs 1)))

(defun idem-ask (method params)
  "Ask METHOD with PARAMS and wait for its result."
  (jsonrpc-request idem-conn method params :timeout 60))

(defun idem-error-of (method params)
  "The error alist that asking METHOD with PARAMS ends in."
  (condition-case failure
      (progn (idem-ask method params) (idem-expect method "an error" "a result"))
    (jsonrpc-error (cdr failure))))

(let ((hello (idem-ask :initialize '(:processId nil))))
  (idem-expect "initialize" "idem-reference"
               (plist-get (plist-get hello :serverInfo) :name)))
(jsonrpc-notify idem-conn :initialized '(:a 1))
(idem-expect "by position" 19 (idem-ask :subtract [42 23]))
(idem-expect "by name" 19 (idem-ask :subtract '(:subtrahend 23 :minuend 42)))
(idem-expect "data" ["hello" 5] (idem-ask :get_data '(:a 1)))
(idem-expect "text" '(:k "grüße 😀\n") (idem-ask :echo '(:k "grüße 😀\n")))
(idem-expect "large text" 100000
             (length (plist-get (idem-ask :echo (list :k (make-string 100000 ?é))) :k)))
(jsonrpc-notify idem-conn :update [1 2 3])
(jsonrpc-notify idem-conn :no_such_notification [1 2 3])

(let ((failure (idem-error-of :nope '(:a 1))))
  (idem-expect "unknown method" -32601 (alist-get 'jsonrpc-error-code failure))
  (idem-expect "its text" "Method not found" (alist-get 'jsonrpc-error-message failure))
  (idem-expect "its data" '(:method "nope") (alist-get 'jsonrpc-error-data failure)))
(idem-expect "wrong params" -32602
             (alist-get 'jsonrpc-error-code (idem-error-of :subtract '(:minuend "x"))))
(idem-expect "failure" -32603 (alist-get 'jsonrpc-error-code (idem-error-of :fail '(:a 1))))

(let ((sum 0))
  (dotimes (i 50)
    (jsonrpc-async-request idem-conn :subtract (vector i 1)
                           :success-fn (lambda (result) (cl-incf sum (1+ result)))))
  (idem-expect "the last of many" 41 (idem-ask :subtract [42 1]))
  (idem-expect "all of many" (/ (* 49 50) 2) sum))

(idem-expect "shutdown" '(:message "Shutting down gracefully") (idem-ask :shutdown '(:a 1)))
(with-timeout (60 (idem-expect "exit" "an exit" "none"))
  (while (jsonrpc-running-p idem-conn) (accept-process-output nil 0.05)))
(idem-expect "exit code" 0 (process-exit-status (jsonrpc--process idem-conn)))
(idem-expect "unasked messages" nil idem-notified)
(message "jsonrpc.el spoke with idem-reference over stdio")
;;; jsonrpc.el ends here
