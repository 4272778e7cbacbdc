set -euo pipefail

ENDPOINT_NAME="hello-batch"

echo "Registering the component and the environment"
az ml environment create -f environment.yml
az ml component create -f hello-component/hello.yml

echo "Creating the endpoint"
az ml batch-endpoint create --name $ENDPOINT_NAME -f endpoint.yml
az ml batch-endpoint show --name $ENDPOINT_NAME

echo "Creating the deployment"
DEPLOYMENT_NAME="hello-batch-dpl"
az ml batch-deployment create --endpoint $ENDPOINT_NAME -f deployment.yml --set-default
az ml batch-deployment show --name $DEPLOYMENT_NAME --endpoint $ENDPOINT_NAME

echo "Invoking it without any data"
JOB_NAME=$(az ml batch-endpoint invoke -n $ENDPOINT_NAME --deployment-name $DEPLOYMENT_NAME --query name -o tsv)
az ml job stream -n $JOB_NAME
az ml job list --parent-job-name $JOB_NAME --query "[].name"
az ml job download --name $JOB_NAME --output-name greeting --download-path ./fetched

echo "Invoking it with other words"
JOB_NAME=$(az ml batch-endpoint invoke -n $ENDPOINT_NAME --file inputs.yml --query name -o tsv)
az ml job stream -n $JOB_NAME
az ml job download --name $JOB_NAME --output-name greeting --download-path ./fetched-other

echo "Deploying a job that ran"
JOB_NAME=$(az ml job create -f pipeline/pipeline.yml --query name -o tsv)
az ml job stream -n $JOB_NAME
DEPLOYMENT_NAME="hello-batch-from-job"
az ml batch-deployment create --endpoint $ENDPOINT_NAME -f deployment-from-job.yml --set job_definition=azureml:$JOB_NAME --set-default
JOB_NAME=$(az ml batch-endpoint invoke -n $ENDPOINT_NAME --query name -o tsv)
az ml job stream -n $JOB_NAME
STATUS=$(az ml job show -n $JOB_NAME --query status -o tsv)
[[ $STATUS == "Completed" ]] || { echo "The job: $STATUS"; exit 1; }

echo "Deleting it"
az ml batch-deployment delete --name hello-batch-dpl --endpoint-name $ENDPOINT_NAME --yes
az ml batch-endpoint delete --name $ENDPOINT_NAME --yes
